import { act } from 'react';
import { describe, expect, it } from 'vitest';

import inline from '../../src/entry/inline';
import type { Message } from '../../src/schema';
import { runView, stepView } from '../examples';
import { settle } from '../fake_kernel';

describe('the stepper in a cell', () => {
  it('starts with the step that came with it, and asks over its widget for others', async () => {
    const sent: Message[] = [];
    let receive: (content: unknown) => void = () => undefined;
    const model = {
      get: (name: string) => (name === 'run' ? runView() : stepView(0)),
      send: (content: unknown) => sent.push(content as Message),
      on: (_: string, callback: (content: unknown) => void) => (receive = callback),
      off: () => undefined
    };
    const el = document.createElement('div');
    let close: () => void = () => undefined;
    act(() => void (close = inline.render({ model: model as never, el })));
    expect(el.querySelector('.rfnb-Transport-where')?.textContent).toBe('step 0 of 0–11');
    expect(el.dataset.lmSuppressShortcuts).toBe('true');
    act(() => el.querySelector<HTMLElement>('[data-step="next"]')?.click());
    expect(sent[0]).toMatchObject({ command: 'step', args: { run: 1, step: 1, sequence: null } });
    await act(async () => {
      receive({ id: sent[0].id, status: 'ok', data: stepView(1), error: null });
      await settle();
    });
    expect(el.querySelector('.rfnb-Transport-where')?.textContent).toBe('step 1 of 0–11');
    act(() => close());
    expect(el.textContent).toBe('');
  });
});
