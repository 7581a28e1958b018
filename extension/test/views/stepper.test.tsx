import * as React from 'react';
import { act } from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { ComparisonView, GradientsView, StateRow, Where } from '../../src/schema';
import { NOT_SEARCHED, type FindState } from '../../src/stepper/finder';
import type { LoopNotes } from '../../src/stepper/notes';
import { StepperView } from '../../src/views/stepper/stepper';
import { dim, EVIL, runView, stateRow, stepView, value } from '../examples';
import { show, redraw, actions, state, press, type, select, click } from '../rendering';

describe('a run beyond its budget', () => {
  it('shows on the slider which steps have statistics only', () => {
    const host = show(<StepperView state={state({ run: runView({ steps: 12, kept_from: 4 }) })} actions={actions()} />);
    const part = host.querySelector<HTMLElement>('.rfnb-Transport-summarized');
    expect(part?.style.getPropertyValue('--rfnb-share')).toBe(String(4 / 11));
    expect(part?.title).toContain('Steps before 4 have statistics only');
    redraw(<StepperView state={state()} actions={actions()} />);
    expect(host.querySelector('.rfnb-Transport-summarized')).toBeNull();
  });
});

describe('StepperView', () => {
  it('shows step, states, and the values beside their lines', () => {
    const host = show(<StepperView state={state()} actions={actions()} />);
    expect(host.querySelector('.rfnb-Transport-where')?.textContent).toBe('step 3 of 0–11');
    const row = host.querySelector('[data-state="h"]');
    expect(row?.querySelector('.rfnb-State-before')?.textContent).toBe('2.5');
    expect(row?.querySelector('.rfnb-State-after .rfnb-Value')?.textContent).toBe('3.5');
    expect(host.querySelector('[data-line="5"]')?.textContent).toContain('h at 3');
    expect(host.querySelector('[aria-current="step"]')?.getAttribute('data-line')).toBe('3');
    expect(host.querySelector('.rfnb-Dim')?.textContent).toBe('letters3–9');
  });

  it.each([
    [true, 'true', 1],
    [false, 'false', 0],
    [undefined, null, 0]
  ])('marks a replay that agrees: %s, and marks nothing for kernels that do not say', (agrees, marked, icons) => {
    const check = show(
      <StepperView state={state({ step: stepView(3, { agrees }) })} actions={actions()} />
    ).querySelector('.rfnb-Check')!;
    expect([check.getAttribute('data-agrees'), check.querySelectorAll('.rfnb-Icon').length]).toEqual([marked, icons]);
    expect(check.textContent).toBe('replay agrees');
  });

  it.each([
    ['replay agrees', {}, 'gave the states of the run', 4],
    ['as it was', { is_plain: true }, 'nothing is computed again', 5],
    ['replay differs: a reason', { is_search: true }, 'did not give the states', 9],
    ['from the traceback', { is_plain: true }, undefined, 4]
  ])('explains "%s", in a legend too', (check, change, words, rows) => {
    const shown = state({ run: runView(change), step: stepView(3, { check }) });
    const host = show(<StepperView state={shown} actions={actions()} />);
    const meanings = [...host.querySelectorAll('.rfnb-Marks dd')].map(row => row.textContent);
    expect(meanings).toHaveLength(rows);
    expect(host.querySelector<HTMLElement>('.rfnb-Check')?.title ?? '').toContain(words ?? '');
    expect(meanings[0]).toContain(words ?? 'change of a state');
  });

  it('explains flags where the pointer is', () => {
    const states = [{ ...stateRow('h', '1', '2'), flags: ['never changes', 'constant', EVIL] }];
    const host = show(<StepperView state={state({ step: stepView(3, { states }) })} actions={actions()} />);
    const titles = [...host.querySelectorAll<HTMLElement>('.rfnb-State .rfnb-Chip')].map(chip => chip.title);
    expect(titles).toEqual(['never changes\nNo step of the run changes it.', 'constant\nAll entries are equal.', EVIL]);
  });

  it('tells values that are not finite from others', () => {
    const wrong = { line: 5, op: 'log', value: value('h', 'nan 1', { flags: ['nan'], alarms: ['nan'] }) };
    const step = stepView(3, { values: [{ line: 3, op: 'x', value: value('x', '1', { flags: ['banana'] }) }, wrong] });
    const host = show(<StepperView state={state({ step })} actions={actions()} />);
    const alarms = [...host.querySelectorAll('.rfnb-Line-values [data-alarm=true]')];
    expect(alarms.map(alarm => alarm.textContent)).toEqual(['hnan 1']);
  });

  it('brings the current line into view when the user goes there, not at the first sight of it', () => {
    const scroll = (Element.prototype.scrollIntoView = vi.fn());
    const host = show(<StepperView state={state({ step: null, line: null })} actions={actions()} />);
    const goTo = (line: number) => redraw(<StepperView state={state({ line })} actions={actions()} />);
    goTo(3);
    expect(scroll).not.toHaveBeenCalled();
    goTo(5);
    expect(scroll.mock.contexts).toEqual([host.querySelector('[data-line="5"]')]);
    goTo(3);
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

  it('has a second slider for the training steps of a probe, which takes the arrow keys', () => {
    const training = { step: 400, steps: [200, 400, 900], measures: { loss: 0.123456 } };
    const asked = actions();
    const host = show(<StepperView state={state({ run: runView({ training }) })} actions={asked} />);
    const slider = host.querySelector<HTMLInputElement>('.rfnb-Training input')!;
    expect([slider.value, slider.max, slider.getAttribute('aria-valuetext')]).toEqual([
      '1',
      '2',
      'training step 400, 2 of 3'
    ]);
    expect(host.querySelector('.rfnb-Training .rfnb-Transport-where')?.textContent).toBe(
      'training step 400 loss 0.123'
    );
    press(host, 'ArrowRight', '.rfnb-Training input');
    expect(asked.next).not.toHaveBeenCalled();
    type(host, '.rfnb-Training input', '2', 't');
    expect(asked.train).toHaveBeenCalledWith(900);
    expect(asked.nextTraining).toHaveBeenCalledWith(1);
    click(host, '[data-training=last]');
    click(host, '[data-training=first]');
    expect(vi.mocked(asked.train).mock.calls.slice(1)).toEqual([[900], [200]]);
  });

  it('has no second slider for other runs, nor in a page without a kernel', () => {
    const training = { step: 400, steps: [200, 400, 900], measures: {} };
    const page = show(<StepperView state={state({ run: runView({ training }), still: true })} actions={actions()} />);
    expect(page.querySelector('.rfnb-Training')).toBeNull();
    redraw(<StepperView state={state()} actions={actions()} />);
    expect(page.querySelector('.rfnb-Training')).toBeNull();
  });

  it('leaves keys with Ctrl alone', () => {
    const asked = actions();
    press(show(<StepperView state={state()} actions={asked} />), 'ArrowRight', '.rfnb-Stepper', { ctrlKey: true });
    expect(asked.next).not.toHaveBeenCalled();
  });

  it('has the focus of the keyboard when the button that had it disappears', () => {
    const host = show(<StepperView state={state({ dropped: true })} actions={actions()} />);
    act(() => host.querySelector<HTMLElement>('.rfnb-Note .rfnb-Link')!.focus());
    redraw(<StepperView state={state()} actions={actions()} />);
    expect(document.activeElement?.className).toBe('rfnb-Stepper');
  });

  it('keeps the focus on the button that was pressed', () => {
    const host = show(<StepperView state={state()} actions={actions()} />);
    const button = host.querySelector<HTMLButtonElement>('[data-step="next"]')!;
    button.focus();
    redraw(<StepperView state={state({ step: stepView(11) })} actions={actions()} />);
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
    const options = [...host.querySelectorAll('.rfnb-Sequences option')].map(option => option.textContent);
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
    expect(busy.querySelector('.rfnb-Note')?.textContent).toContain('Step 4 will be shown when the cell has finished');
    redraw(<StepperView state={state({ error: 'no memory' })} actions={actions()} />);
    expect(busy.querySelector('[role="alert"]')?.textContent).toBe('no memory');
    expect(busy.querySelector('[data-state="h"]')).not.toBeNull();
  });

  it('shows a run without steps', () => {
    const run = runView({ steps: 0, lengths: [0, 0] });
    const host = show(<StepperView state={state({ run, step: null, line: null })} actions={actions()} />);
    expect(host.querySelector('.rfnb-Transport-where')?.textContent).toBe('no steps');
  });
});

const WHERE: Where = { kind: 'over', name: null, line: null, limit: 2, text: null };

describe('Find', () => {
  const found = (change: Partial<FindState>): FindState => ({ ...NOT_SEARCHED, ...change });
  const noted = (change: Partial<LoopNotes>): LoopNotes => ({
    watches: [],
    where: null,
    stops: [],
    pauses: false,
    ...change
  });

  it('chooses what to search for, with the first state where a name is needed', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    select(host, '.rfnb-Find-kind', 'changes');
    expect(asked.note).toHaveBeenCalledWith({ where: expect.objectContaining({ kind: 'changes', name: 'h' }) });
    select(host, '.rfnb-Find-kind', 'not finite');
    expect(asked.note).toHaveBeenLastCalledWith({ where: expect.objectContaining({ kind: 'not finite', name: null }) });
  });

  it('reads as a sentence: a value, what is true of it, and a number that is missing', () => {
    const notes = noted({ where: { ...WHERE, kind: 'over', limit: null } });
    const host = show(<StepperView state={state({ notes })} actions={actions()} />);
    const parts = [...host.querySelectorAll<HTMLElement>('.rfnb-Find :is(select, input[type=text])')];
    expect(parts.map(part => part.className)).toEqual(['rfnb-Find-name', 'rfnb-Find-kind', 'rfnb-Find-limit']);
    expect(host.querySelector<HTMLInputElement>('.rfnb-Find-limit')?.placeholder).toBe('number');
  });

  it('takes a limit when it is entered', () => {
    const asked = actions();
    const host = show(<StepperView state={state({ notes: noted({ where: WHERE }) })} actions={asked} />);
    type(host, '.rfnb-Find-limit', '0.5');
    expect(asked.note).toHaveBeenCalledWith({ where: { ...WHERE, limit: 0.5 } });
    type(host, '.rfnb-Find-limit', 'much');
    expect(asked.note).toHaveBeenLastCalledWith({ where: { ...WHERE, limit: null } });
  });

  it('marks what was found on the slider, and says how many there are', () => {
    const notes = noted({ where: WHERE });
    const find = found({ hits: [2, 7], searched: 12 });
    const host = show(<StepperView state={state({ notes, find })} actions={actions()} />);
    const marks = [...host.querySelectorAll<HTMLElement>('[data-hit-step]')].map(mark => mark.dataset.hitStep);
    expect(marks).toEqual(['2', '7']);
    expect(host.querySelector('.rfnb-Find-progress')?.textContent).toBe('2 matches');
  });

  it.each([
    [{ hits: [], searched: 12, none: 'next' }, 'no match'],
    [{ hits: [1], searched: 12, none: 'next' }, 'no match after this step'],
    [{ hits: [9], searched: 12, none: 'previous' }, 'no match before this step'],
    [{ hits: [], searched: 3, running: true }, 'Searching …Stop (25 % done)'],
    [{}, '']
  ] as [Partial<FindState>, string][])('%j: %s', (change, text) => {
    const notes = noted({ where: WHERE });
    const host = show(<StepperView state={state({ notes, find: found(change) })} actions={actions()} />);
    expect(host.querySelector('.rfnb-Find-progress')?.textContent).toBe(text);
  });

  it('is cancelled by its button', () => {
    const asked = actions();
    const find = found({ searched: 3, running: true });
    const host = show(<StepperView state={state({ notes: noted({ where: WHERE }), find })} actions={asked} />);
    click(host, '.rfnb-Find-cancel');
    expect(asked.cancelSearch).toHaveBeenCalledOnce();
  });

  it('shows the marked lines that still say the same, and takes marks away', () => {
    const asked = actions();
    const stop = { line: 3, code: '    x = embed(loop.state.y)', kind: 'changes' as const, limit: null };
    const notes = noted({ stops: [stop, { ...stop, line: 5 }] });
    const host = show(<StepperView state={state({ notes })} actions={asked} />);
    expect([...host.querySelectorAll<HTMLElement>('.rfnb-Stop')].map(row => row.dataset.line)).toEqual(['3']);
    expect(host.querySelector('[data-line="3"] .rfnb-Line-number')?.getAttribute('aria-pressed')).toBe('true');
    select(host, '.rfnb-Stop select', 'not finite');
    expect(asked.changeStop).toHaveBeenCalledWith(stop, { kind: 'not finite' });
    click(host, '.rfnb-Stop .rfnb-Small-button');
    click(host, '[data-line="5"] .rfnb-Line-number');
    expect(vi.mocked(asked.toggleStop).mock.calls).toEqual([[3], [5]]);
    expect(asked.look).not.toHaveBeenCalled();
  });

  it.each([
    ['n', 'goToHit', 'next'],
    ['N', 'goToHit', 'previous'],
    ['b', 'toggleStop', 3],
    ['.', 'stepOp', 1],
    [',', 'stepOp', -1]
  ] as const)('the key %s: %s(%s)', (key, name, argument) => {
    const asked = actions();
    press(show(<StepperView state={state()} actions={asked} />), key, '.rfnb-Stepper', { shiftKey: key === 'N' });
    expect(asked[name]).toHaveBeenCalledWith(argument);
  });

  it('leaves keys to the fields that are typed in', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    ['n', 'ArrowLeft', 'Home'].forEach(key => press(host, key, '.rfnb-Watches-add'));
    expect([asked.goToHit, asked.previous, asked.first].map(call => vi.mocked(call).mock.calls.length)).toEqual([
      0, 0, 0
    ]);
  });
});

describe('around a run', () => {
  it('leads back to the runs around it, and to the one that it was forked from', () => {
    const asked = actions();
    const trail = [{ run: 1, name: 'outer', step: 4, sequence: null }];
    const run = runView({ parent: 2, forked_at: 3 });
    const host = show(<StepperView state={state({ run, trail })} actions={asked} />);
    const links = [...host.querySelectorAll<HTMLElement>('.rfnb-Origin button')];
    expect(links.map(link => link.textContent)).toEqual(['outer, step 4', 'fork of #2 at step 3']);
    links.forEach(link => act(() => link.click()));
    expect(asked.leaveTo).toHaveBeenCalledWith(0);
    expect(asked.openParent).toHaveBeenCalledOnce();
  });

  it('goes to where it broke off, and marks the line there', () => {
    const asked = actions();
    const flags = [`failed in step 3: ${EVIL}`, 'not finite'];
    const run = runView({ flags, failure: { step: 3, line: 5, error: EVIL } });
    const host = show(<StepperView state={state({ run })} actions={asked} />);
    expect(host.querySelector('.rfnb-Failure')?.textContent).toContain(EVIL);
    expect(host.querySelector('.rfnb-Stepper-head .rfnb-Chips')?.textContent).toBe('not finite'); // the error once
    expect(host.querySelector('[data-failed=true]')?.getAttribute('data-line')).toBe('5');
    click(host, '.rfnb-Failure button');
    expect([vi.mocked(asked.goto).mock.calls, vi.mocked(asked.look).mock.calls]).toEqual([[[3]], [[5]]]);
  });

  it('shows what differs from another run, and goes there', () => {
    const asked = actions();
    const differences = [
      { name: 'state h', value: 'h', line: null, step: 2, text: 'Δ 0.1' },
      { name: 'state c', value: 'state c', line: null, step: 2, text: 'Δ 0.1' },
      { name: 'x', line: 3, step: 9, text: 'Δ 0.2' },
      { name: 'old', line: null, step: null, text: 'only in the first' }
    ];
    const answer: ComparisonView = {
      kind: 'comparison', run: 1, other: 7, agree: false, first: null, differences, notes: ['3 and 4 steps'], text: 'differ'
    }; // prettier-ignore
    const asides = { compare: { waiting: false, error: null, answer } };
    const step = stepView(3, { states: [stateRow('h', '1', '2'), stateRow('c', '1', '2')] });
    const host = show(<StepperView state={state({ step, asides })} actions={asked} />);
    expect(host.querySelector('.rfnb-Comparison')?.textContent).toContain('3 and 4 steps');
    expect(host.querySelector('[data-state="h"]')?.getAttribute('data-differs')).toBe('true');
    expect(host.querySelector('[data-state="c"]')?.getAttribute('data-differs')).toBe('false');
    expect(host.querySelectorAll('[data-line="3"] [data-differs=true]')).toHaveLength(0); // x does so later
    click(host, '.rfnb-Comparison [data-step="9"]');
    expect([vi.mocked(asked.goto).mock.calls, vi.mocked(asked.look).mock.calls]).toEqual([[[9]], [[3]]]);
    click(host, '.rfnb-Comparison h3 button');
    expect(asked.dismiss).toHaveBeenCalledWith('compare');
  });

  it('offers the gradient of what can have one', () => {
    const row = (name: string, dtype: string) => ({ ...stateRow(name, '0', '1'), after: value(name, '1', { dtype }) });
    const step = (...states: StateRow[]) => stepView(3, { states, values: [] });
    const host = show(
      <StepperView state={state({ step: step(row('prev', 'int64'), row('h', 'bfloat16')) })} actions={actions()} />
    );
    const names = host.querySelectorAll('.rfnb-Gradients option');
    expect([...names].map(option => option.textContent)).toEqual(['h']);
    redraw(<StepperView state={state({ step: step(row('prev', 'int64')) })} actions={actions()} />);
    expect(host.querySelector('.rfnb-Gradients')).toBeNull();
  });

  it('draws the gradient of what was chosen when that is asked for', () => {
    const asked = actions();
    const curves = [{ state: 'h', norms: [1, 'nan' as const, 0, 1e-3, 10] }];
    const answer: GradientsView = { kind: 'gradients', run: 1, loss: 'x', curves, note: null };
    const asides = { gradients: { waiting: false, error: null, answer } };
    const host = show(<StepperView state={state({ asides })} actions={asked} />);
    expect(host.querySelector('[data-curve="h"] b')?.textContent).toBe('0.001');
    expect(host.querySelectorAll('[data-curve="h"] .rfnb-mod-bad')).toHaveLength(1);
    expect(host.querySelectorAll('[data-curve="h"] .rfnb-mod-zero')).toHaveLength(1);
    expect(host.querySelector('[data-curve="h"] polyline')?.getAttribute('points')?.split(' ')).toHaveLength(3);
    select(host, '.rfnb-Gradients select', 'x');
    click(host, '.rfnb-Gradients .rfnb-Button');
    expect(asked.ask).toHaveBeenCalledWith('gradients', { loss: 'x', sequence: null });
  });

  it('has no field where nothing can be computed', () => {
    const host = show(<StepperView state={state({ still: true })} actions={actions()} />);
    expect(
      host.querySelectorAll('.rfnb-Find, .rfnb-Watches, .rfnb-State-edit, .rfnb-Gradients, .rfnb-Line-acts')
    ).toHaveLength(0);
  });
});
