import * as React from 'react';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { StepperState } from '../src/stepper';
import { formatBytes, formatNumber } from '../src/views/numbers';
import { tokens } from '../src/views/python';
import { groupRuns } from '../src/views/run_list';
import { LoopsView, type LoopsProps } from '../src/views/loops';
import { StepperView, type StepperActions } from '../src/views/stepper';
import { dim, EVIL, item, runView, stateRow, stepView, value } from './examples';

let root: Root | null = null;

function show(element: JSX.Element): HTMLElement {
  const host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
  act(() => root?.render(element));
  return host;
}

afterEach(() => {
  act(() => root?.unmount());
  document.body.textContent = '';
});

function actions(): StepperActions {
  const names = ['goto', 'first', 'previous', 'next', 'last', 'choose', 'look', 'lookOn'];
  return Object.fromEntries(names.map(name => [name, vi.fn()])) as unknown as StepperActions;
}

function state(change: Partial<StepperState> = {}): StepperState {
  const step = stepView(3);
  return { run: runView(), step, line: 3, target: null, waiting: null, error: null, gone: false, ...change };
}

function press(host: HTMLElement, key: string, selector = '.rfnb-Stepper', modifiers: KeyboardEventInit = {}): Event {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...modifiers });
  act(() => void host.querySelector(selector)?.dispatchEvent(event));
  return event;
}

describe('StepperView', () => {
  it('shows step, states, and the values beside their lines', () => {
    const host = show(<StepperView state={state()} actions={actions()} />);
    expect(host.querySelector('.rfnb-Transport-where')?.textContent).toBe('step 3 of 12');
    const row = host.querySelector('[data-state="h"]');
    expect(row?.querySelector('.rfnb-State-before')?.textContent).toBe('2.5');
    expect(row?.querySelector('.rfnb-State-after .rfnb-Value')?.textContent).toBe('3.5');
    expect(host.querySelector('[data-line="5"]')?.textContent).toContain('h at 3');
    expect(host.querySelector('[aria-current="step"]')?.getAttribute('data-line')).toBe('3');
    expect(host.querySelector('.rfnb-Dim')?.textContent).toBe('letters3–9');
  });

  it('tells values that are not finite from others', () => {
    const wrong = { line: 5, op: 'log', value: value('h', 'nan 1', { flags: ['nan'] }) };
    const step = stepView(3, { values: [{ line: 3, op: 'x', value: value('x', '1') }, wrong] });
    const host = show(<StepperView state={state({ step })} actions={actions()} />);
    const alarms = [...host.querySelectorAll('.rfnb-Line-values [data-alarm=true]')];
    expect(alarms.map(alarm => alarm.textContent)).toEqual(['hnan 1']);
  });

  it('brings the current line into view when the user goes there, not at the first sight of it', () => {
    const scroll = (Element.prototype.scrollIntoView = vi.fn());
    const host = show(<StepperView state={state({ step: null, line: null })} actions={actions()} />);
    const redraw = (line: number) =>
      act(() => root?.render(<StepperView state={state({ line })} actions={actions()} />));
    redraw(3);
    expect(scroll).not.toHaveBeenCalled();
    redraw(5);
    expect(scroll.mock.contexts).toEqual([host.querySelector('[data-line="5"]')]);
    redraw(3);
    expect(scroll).toHaveBeenCalledTimes(2);
  });

  it.each([
    ['ArrowRight', 'next'],
    ['ArrowLeft', 'previous'],
    ['Home', 'first'],
    ['End', 'last']
  ] as const)('%s asks for the %s step', (key, name) => {
    const asked = actions();
    const event = press(show(<StepperView state={state()} actions={asked} />), key);
    expect(asked[name]).toHaveBeenCalledOnce();
    expect(event.defaultPrevented).toBe(true);
  });

  it('moves the line with ↑ and ↓, also while the slider has the focus', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    press(host, 'ArrowDown');
    press(host, 'ArrowUp', 'input[type=range]');
    expect(vi.mocked(asked.lookOn).mock.calls).toEqual([[1], [-1]]);
  });

  it('leaves keys with Ctrl alone', () => {
    const asked = actions();
    press(show(<StepperView state={state()} actions={asked} />), 'ArrowRight', '.rfnb-Stepper', { ctrlKey: true });
    expect(asked.next).not.toHaveBeenCalled();
  });

  it('keeps the focus on the button that was pressed', () => {
    const host = show(<StepperView state={state()} actions={actions()} />);
    const button = host.querySelector<HTMLButtonElement>('[data-step="next"]')!;
    button.focus();
    act(() => root?.render(<StepperView state={state({ step: stepView(11) })} actions={actions()} />));
    expect(document.activeElement).toBe(button);
    expect(button.getAttribute('aria-disabled')).toBe('true');
  });

  it('goes to the line that is clicked', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    act(() => host.querySelector<HTMLElement>('[data-line="5"]')?.click());
    expect(asked.look).toHaveBeenCalledWith(5);
  });

  it('chooses a sequence by its tag, and greys those that have ended', () => {
    const asked = actions();
    const host = show(<StepperView state={state({ step: stepView(7) })} actions={asked} />);
    const buttons = [...host.querySelectorAll<HTMLElement>('.rfnb-Sequences button')];
    expect(buttons.map(button => button.textContent)).toEqual(['all', 'banana12', 'cat5']);
    expect(buttons.map(button => button.className)).toEqual(['', '', 'rfnb-mod-ended']);
    act(() => buttons[2].click());
    expect(asked.choose).toHaveBeenCalledWith(1);
  });

  it('offers many sequences as a list, without tags by number', () => {
    const run = runView({ tags: null, lengths: Array.from({ length: 40 }, () => 3) });
    const host = show(<StepperView state={state({ run })} actions={actions()} />);
    const options = [...host.querySelectorAll('option')].map(option => option.textContent);
    expect(options.slice(0, 2)).toEqual(['all 40', 'sequence 0: 3 steps']);
  });

  it('shows whatever a user named as text, and no picture from an address', () => {
    const run = runView({ name: EVIL, place: EVIL, tags: [EVIL, EVIL], flags: [EVIL], body: [EVIL, EVIL, EVIL] });
    const evil = value(EVIL, EVIL, {
      dims: [dim({ name: EVIL })],
      flags: [EVIL],
      picture: 'https://example.org/x.png'
    });
    const step = stepView(0, {
      states: [{ ...stateRow(EVIL, EVIL, EVIL), after: evil, flags: [EVIL] }],
      values: [{ line: 3, op: EVIL, value: evil }],
      check: EVIL
    });
    const host = show(<StepperView state={state({ run, step, error: EVIL })} actions={actions()} />);
    expect(host.querySelector('script')).toBeNull();
    expect(host.querySelector('img')).toBeNull();
    expect(host.textContent?.split(EVIL).length).toBeGreaterThan(12);
  });

  it('shows a picture that was sent along', () => {
    const picture = 'data:image/png;base64,AAAA';
    const step = stepView(0, { values: [{ line: 5, op: 'softmax', value: value('att', '…', { picture }) }] });
    const host = show(<StepperView state={state({ step })} actions={actions()} />);
    expect(host.querySelector('[data-line="5"] img')?.getAttribute('src')).toBe(picture);
  });

  it('says what is being waited for, and what went wrong', () => {
    const busy = show(<StepperView state={state({ waiting: 'busy', target: 4 })} actions={actions()} />);
    expect(busy.querySelector('.rfnb-Note')?.textContent).toContain('step 4 comes when the cell is done');
    act(() => root?.render(<StepperView state={state({ error: 'no memory' })} actions={actions()} />));
    expect(busy.querySelector('[role="alert"]')?.textContent).toBe('no memory');
    expect(busy.querySelector('[data-state="h"]')).not.toBeNull();
  });

  it('shows a run without steps', () => {
    const run = runView({ steps: 0, lengths: [0, 0] });
    const host = show(<StepperView state={state({ run, step: null, line: null })} actions={actions()} />);
    expect(host.querySelector('.rfnb-Transport-where')?.textContent).toBe('no steps');
  });
});

describe('LoopsView', () => {
  const props = (change: Partial<LoopsProps>): LoopsProps => ({
    notebook: 'tour.ipynb',
    link: 'ready',
    busy: false,
    complaint: null,
    error: null,
    runs: [],
    filter: '',
    stepper: null,
    stepperActions: null,
    runActions: { open: vi.fn(), pin: vi.fn(), forget: vi.fn() },
    onFilter: vi.fn(),
    onRefresh: vi.fn(),
    ...change
  });

  it.each([
    [{ notebook: null }, 'No notebook'],
    [{ link: null }, 'No kernel'],
    [{ link: 'absent' }, 'rfnb is not imported'],
    [{}, 'No loops yet'],
    [{ link: 'connecting', busy: true }, 'The kernel is busy']
  ] as [Partial<LoopsProps>, string][])('teaches: %j → %s', (change, title) => {
    const host = show(<LoopsView {...props(change)} />);
    expect(host.querySelector('.rfnb-Guide h3')?.textContent).toBe(title);
  });

  it('says which side to update, instead of a guide', () => {
    const host = show(<LoopsView {...props({ link: 'mismatch', complaint: 'Update rfnb' })} />);
    expect(host.querySelector('[role="alert"]')?.textContent).toBe('Update rfnb');
    expect(host.querySelector('.rfnb-Guide')).toBeNull();
  });

  it('opens the run that is clicked', () => {
    const given = props({ runs: [item(2), item(1)] });
    const host = show(<LoopsView {...given} />);
    act(() => host.querySelector<HTMLElement>('[data-run="1"] .rfnb-Run-open')?.click());
    expect(given.runActions.open).toHaveBeenCalledWith(1);
  });
});

describe('groupRuns', () => {
  it('groups by loop, newest first, and lets the filter choose', () => {
    const runs = [
      item(1),
      item(3, { place: 'cell 9, line 2' }),
      item(2, { loop: 'c2:1', name: 'encoder', flags: ['not finite'] })
    ];
    expect(groupRuns(runs, '').map(group => [group.name, group.runs.map(run => run.run)])).toEqual([
      ['decoder', [3, 1]],
      ['encoder', [2]]
    ]);
    expect(groupRuns(runs, 'FINITE enc').map(group => group.name)).toEqual(['encoder']);
  });
});

describe('formatNumber', () => {
  it.each([
    [0, '0'],
    [-0.31234, '−0.312'],
    [12, '12'],
    [1234.5, '1230'],
    [0.00001234, '1.2e−5'],
    [-2.5e9, '−2.5e+9'],
    ['nan', 'NaN'],
    ['-inf', '−∞']
  ] as const)('%s → %s', (number, text) => expect(formatNumber(number)).toBe(text));
});

describe('formatBytes', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [4200, '4.2 kB'],
    [48_000_000, '48 MB']
  ])('%d → %s', (bytes, text) => expect(formatBytes(bytes)).toBe(text));
});

describe('tokens', () => {
  it.each(['    h = rf.where(x > 0.5, "a # b", y)  # é <x>', "f'{a}' if not b else '''open", ''])('keeps %s', line => {
    const joined = tokens(line)
      .map(token => token.text)
      .join('');
    expect(joined).toBe(line);
  });

  it('knows comments from strings', () => {
    const kinds = tokens('with "#": # c').map(token => token.kind);
    expect(kinds).toEqual(['keyword', 'plain', 'string', 'plain', 'comment']);
  });
});
