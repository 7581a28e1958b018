import * as React from 'react';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import { formatBytes, formatNumber } from '../../src/numbers';
import type { ComparisonView, GradientsView, OpView, Where } from '../../src/schema';
import { actionsOf, type StepperActions } from '../../src/stepper/actions';
import { NOT_SEARCHED, type FindState } from '../../src/stepper/finder';
import type { LoopNotes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import type { StepperState } from '../../src/stepper/stepper_state';
import { LoopsView, type LoopsProps } from '../../src/views/panel/loops';
import { groupRuns } from '../../src/views/panel/run_list';
import { tokens } from '../../src/views/step/python';
import { StepperView } from '../../src/views/stepper/stepper';
import { dim, EVIL, item, opRow, runView, stateRow, stepView, value, watchRow } from '../examples';

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
  const stepper = new Stepper(new Requests(() => undefined), runView());
  return Object.fromEntries(Object.keys(actionsOf(stepper)).map(name => [name, vi.fn()])) as unknown as StepperActions;
}

function state(change: Partial<StepperState> = {}): StepperState {
  return { ...new Stepper(new Requests(() => undefined), runView(), stepView(3)).state, ...change };
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

function type(host: HTMLElement, selector: string, text: string, key = 'Enter'): void {
  const field = host.querySelector<HTMLInputElement>(selector)!;
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!;
  act(() => {
    set!.call(field, text);
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
  act(() => void field.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })));
}

function select(host: HTMLElement, selector: string, value: string): void {
  const list = host.querySelector<HTMLSelectElement>(selector)!;
  act(() => {
    list.value = value;
    list.dispatchEvent(new Event('change', { bubbles: true }));
  });
}

const click = (host: HTMLElement, selector: string) =>
  act(() => void host.querySelector<HTMLElement>(selector)?.click());

const WHERE: Where = { kind: 'over', name: null, line: null, limit: 2, text: null };

describe('Find', () => {
  const found = (change: Partial<FindState>): FindState => ({ ...NOT_SEARCHED, ...change });
  const noted = (change: Partial<LoopNotes>): LoopNotes => ({ watches: [], where: null, stops: [], ...change });

  it('chooses what to search for, with the first state where a name is needed', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    select(host, '.rfnb-Find-kind', 'changes');
    expect(asked.note).toHaveBeenCalledWith({ where: expect.objectContaining({ kind: 'changes', name: 'h' }) });
    select(host, '.rfnb-Find-kind', 'not finite');
    expect(asked.note).toHaveBeenLastCalledWith({ where: expect.objectContaining({ kind: 'not finite', name: null }) });
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
    expect(host.querySelector('.rfnb-Find-progress')?.textContent).toBe('2 steps');
  });

  it.each([
    [{ hits: [], searched: 12, none: 'next' }, 'in no step'],
    [{ hits: [1], searched: 12, none: 'next' }, 'no such step after this one'],
    [{ hits: [9], searched: 12, none: 'previous' }, 'no such step before this one'],
    [{ hits: [], searched: 3, running: true }, 'searching …stop at 25 %'],
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

describe('Watches', () => {
  it('shows values and errors, and adds and removes expressions', () => {
    const asked = actions();
    const notes = { watches: ['max(h)', 'hh'], where: null, stops: [] };
    const step = stepView(3, { watches: [watchRow('max(h)'), watchRow('hh', `no hh; did you mean h? ${EVIL}`)] });
    const host = show(<StepperView state={state({ step, notes })} actions={asked} />);
    expect(host.querySelector('[data-watch="max(h)"] .rfnb-Watch-value')?.textContent).toContain('max(h)!');
    expect(host.querySelector('[data-watch="hh"] [role="alert"]')?.textContent).toContain('did you mean h?');
    expect(host.querySelector('script')).toBeNull();
    type(host, '.rfnb-Watches-add', ' after.h ');
    expect(asked.note).toHaveBeenCalledWith({ watches: ['max(h)', 'hh', 'after.h'] });
    type(host, '.rfnb-Watches-add', 'hh');
    expect(asked.note).toHaveBeenCalledTimes(1);
    click(host, '[data-watch="hh"] button');
    expect(asked.note).toHaveBeenLastCalledWith({ watches: ['max(h)'] });
  });
});

describe('editing a state', () => {
  it('runs on from what was typed, and says why it was refused', () => {
    const asked = actions();
    const host = show(<StepperView state={state()} actions={asked} />);
    click(host, '[data-state="h"] .rfnb-State-edit');
    const field = host.querySelector<HTMLInputElement>('.rfnb-Edit input');
    expect([document.activeElement, field?.value]).toEqual([field, '2.5']);
    type(host, '.rfnb-Edit input', 'AH');
    expect(asked.fork).toHaveBeenCalledWith({ h: 'AH' });
    const asides = { fork: { waiting: false, error: 'no label AH', answer: null } };
    act(() => root?.render(<StepperView state={state({ asides })} actions={asked} />));
    expect(host.querySelector('.rfnb-Edit [role="alert"]')?.textContent).toBe('no label AH');
    type(host, '.rfnb-Edit input', 'B', 'Escape');
    expect(host.querySelector('.rfnb-Edit')).toBeNull();
    expect(asked.fork).toHaveBeenCalledOnce();
  });
});

describe('ops of a line', () => {
  const op: OpView = { number: 1, inputs: [value('a', '1')], outputs: [value('b', '2')] };
  const rows = [opRow(0), opRow(1, { op: 'Loop', is_loop: true, path: 'Decoder' }), opRow(2, { line: 5 })];
  const step = stepView(3, { ops: { rows, op, error: null } });

  it('shows those of the line, with the numbers of the one that is looked at', () => {
    const asked = actions();
    const host = show(<StepperView state={state({ step })} actions={asked} />);
    const shown = [...host.querySelectorAll<HTMLElement>('[data-line="3"] .rfnb-Op')];
    expect(shown.map(row => row.dataset.op)).toEqual(['0', '1']);
    expect([...shown[1].querySelectorAll('.rfnb-Operand .rfnb-Value')].map(v => v.textContent)).toEqual(['a1', 'b2']);
    click(host, '[data-op="0"] .rfnb-Op-head');
    expect(asked.lookAtOp).toHaveBeenCalledWith(0);
    click(host, '[data-op="1"] .rfnb-Button');
    expect(asked.enter).toHaveBeenCalledOnce();
    expect(asked.look).not.toHaveBeenCalled();
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
    const run = runView({ failure: { step: 3, line: 5, error: EVIL } });
    const host = show(<StepperView state={state({ run })} actions={asked} />);
    expect(host.querySelector('.rfnb-Failure')?.textContent).toContain(EVIL);
    expect(host.querySelector('[data-failed=true]')?.getAttribute('data-line')).toBe('5');
    click(host, '.rfnb-Failure button');
    expect([vi.mocked(asked.goto).mock.calls, vi.mocked(asked.look).mock.calls]).toEqual([[[3]], [[5]]]);
  });

  it('shows what differs from another run, and goes there', () => {
    const asked = actions();
    const differences = [
      { name: 'state h', line: null, step: 2, text: 'Δ 0.1' },
      { name: 'x', line: 3, step: 9, text: 'Δ 0.2' },
      { name: 'old', line: null, step: null, text: 'only in the first' }
    ];
    const answer: ComparisonView = {
      kind: 'comparison', run: 1, other: 7, agree: false, first: null, differences, notes: ['3 and 4 steps'], text: 'differ'
    }; // prettier-ignore
    const asides = { compare: { waiting: false, error: null, answer } };
    const host = show(<StepperView state={state({ asides })} actions={asked} />);
    expect(host.querySelector('.rfnb-Comparison')?.textContent).toContain('3 and 4 steps');
    expect(host.querySelector('[data-state="h"]')?.getAttribute('data-differs')).toBe('true');
    expect(host.querySelectorAll('[data-line="3"] [data-differs=true]')).toHaveLength(0); // x does so later
    click(host, '.rfnb-Comparison [data-step="9"]');
    expect([vi.mocked(asked.goto).mock.calls, vi.mocked(asked.look).mock.calls]).toEqual([[[9]], [[3]]]);
    click(host, '.rfnb-Comparison h3 button');
    expect(asked.dismiss).toHaveBeenCalledWith('compare');
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
    expect(asked.gradients).toHaveBeenCalledWith('x');
  });

  it('has no field where nothing can be computed', () => {
    const host = show(<StepperView state={state({ still: true })} actions={actions()} />);
    expect(
      host.querySelectorAll('.rfnb-Find, .rfnb-Watches, .rfnb-State-edit, .rfnb-Gradients, .rfnb-Line-acts')
    ).toHaveLength(0);
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
    runActions: { open: vi.fn(), pin: vi.fn(), forget: vi.fn(), compare: vi.fn(), rerun: vi.fn() },
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

  it('compares with other runs of the same loop, and tells forks', () => {
    const runs = [item(3, { parent: 2, forked_at: 4 }), item(2), item(1, { loop: 'c2:1' })];
    const given = props({ runs, stepper: state({ run: runView({ run: 2 }) }), stepperActions: actions() });
    const host = show(<LoopsView {...given} />);
    const compare = [...host.querySelectorAll<HTMLElement>('[aria-label^="Compare with"]')];
    expect(compare.map(button => button.ariaLabel ?? button.getAttribute('aria-label'))).toEqual([
      'Compare with run 3'
    ]);
    act(() => compare[0].click());
    expect(given.runActions.compare).toHaveBeenCalledWith(3);
    expect(host.querySelector('[data-run="3"] .rfnb-Run-parent')?.textContent).toBe('fork of #2 at 4');
  });

  it('makes a call again, but not that of a fork', () => {
    const given = props({ runs: [item(3, { parent: 2, forked_at: 4 }), item(2)] });
    const host = show(<LoopsView {...given} />);
    const again = [...host.querySelectorAll<HTMLElement>('[aria-label^="Make the call"]')];
    expect(again.length).toBe(1);
    act(() => again[0].click());
    expect(given.runActions.rerun).toHaveBeenCalledWith(2);
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
