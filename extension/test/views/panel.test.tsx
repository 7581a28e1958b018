import * as React from 'react';
import { act } from 'react';
import { describe, expect, it, vi } from 'vitest';

import { LoopsView, type LoopsProps } from '../../src/views/panel/loops';
import { groupRuns } from '../../src/views/panel/run_list';
import { EVIL, item, runView } from '../examples';
import { show, actions, redraw, state, click } from '../rendering';

describe('LoopsView', () => {
  const props = (change: Partial<LoopsProps>): LoopsProps => ({
    notebook: 'tour.ipynb',
    link: 'ready',
    busy: false,
    paused: null,
    pauses: false,
    records: null,
    onRecord: vi.fn(),
    pausedElsewhere: [],
    onActivate: vi.fn(),
    complaint: null,
    error: null,
    runs: [],
    filter: '',
    stepper: null,
    stepperActions: null,
    runActions: { open: vi.fn(), pin: vi.fn(), forget: vi.fn(), compare: vi.fn(), rerun: vi.fn() },
    pauseActions: { pause: vi.fn(), resume: vi.fn(), resumeTo: vi.fn() },
    onFilter: vi.fn(),
    onInsert: vi.fn(),
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

  it('says where a cell is paused, and lets it go on', () => {
    const paused = { run: 1, name: EVIL, step: 7, why: 'h > 1', line: null, can_edit: true, cell_id: null };
    const pauseActions = { pause: vi.fn(), resume: vi.fn(), resumeTo: vi.fn() };
    const host = show(<LoopsView {...props({ paused, busy: true, pauseActions })} />);
    expect(host.querySelector('.rfnb-Paused-where')?.textContent).toBe(`Paused: ${EVIL}, after step 7 h > 1`);
    expect(host.querySelector('script, .rfnb-Status-busy, .rfnb-Status-pause')).toBeNull();
    ['next', 'resume', 'last', 'stop', 'nextHit'].forEach(name => click(host, `[data-resume=${name}]`));
    expect(pauseActions.resume.mock.calls).toEqual([['step'], ['continue'], ['run'], ['stop']]); // nothing to match
  });

  it('keeps the focus of the keyboard where a pause ends and another begins, and where a run is forgotten', () => {
    const paused = { run: 1, name: 'x', step: 7, why: 'h > 1', line: null, can_edit: true, cell_id: null };
    const shown = { runs: [item(1)], stepper: state(), stepperActions: actions() };
    const host = show(<LoopsView {...props({ ...shown, paused, busy: true })} />);
    const focus = (selector: string) => act(() => host.querySelector<HTMLElement>(selector)?.focus());
    const focused = () => document.activeElement as HTMLElement;
    for (const control of ['next', 'to']) {
      focus(`[data-resume=${control}]`);
      redraw(<LoopsView {...props({ ...shown, busy: true })} />);
      expect(focused()).toBe(document.body);
      redraw(<LoopsView {...props({ ...shown, paused, busy: true })} />);
      expect(focused().dataset.resume).toBe(control);
    }
    focus('[data-resume=last]');
    redraw(<LoopsView {...props(shown)} />);
    expect(focused().className).toBe('rfnb-Stepper');
    focus('.rfnb-Run-act');
    redraw(<LoopsView {...props({ ...shown, runs: [] })} />);
    expect(focused().className).toBe('rfnb-Stepper');
    act(() => focused().blur());
    redraw(<LoopsView {...props({ ...shown, paused, busy: true })} />);
    expect(focused()).toBe(document.body);
  });

  it('says at which line a step is paused', () => {
    const paused = { run: 1, name: 'x', step: 7, why: 'h > 1', line: 9, can_edit: true, cell_id: null };
    const pausedElsewhere = [{ id: 'a', name: 'b.ipynb', paused }];
    const host = show(<LoopsView {...props({ paused, pausedElsewhere, busy: true })} />);
    expect(host.querySelector('.rfnb-Paused-where')?.textContent).toBe('Paused: x, step 7, line 9 h > 1');
    expect(host.querySelector('.rfnb-Paused-elsewhere')?.textContent).toBe('b.ipynb is paused: x, step 7, line 9');
  });

  it('goes on to a later step, and not to an earlier one', () => {
    const paused = { run: 1, name: 'x', step: 7, why: '', line: null, can_edit: true, cell_id: null };
    const pauseActions = { pause: vi.fn(), resume: vi.fn(), resumeTo: vi.fn() };
    const host = show(<LoopsView {...props({ paused, busy: true, pauseActions })} />);
    const field = host.querySelector<HTMLInputElement>('.rfnb-Paused-to input')!;
    const enter = (text: string) => {
      field.value = text;
      act(() => void field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })));
    };
    ['7', '', '8.5', '100'].forEach(enter);
    expect(pauseActions.resumeTo.mock.calls).toEqual([[100]]);
    expect(field.value).toBe('');
  });

  it('pauses the next step, and shows that it will', () => {
    const pauseActions = { pause: vi.fn(), resume: vi.fn(), resumeTo: vi.fn() };
    const host = show(<LoopsView {...props({ pauses: true, pauseActions })} />);
    expect(host.querySelector('.rfnb-Status-pause')?.getAttribute('aria-pressed')).toBe('true');
    click(host, '.rfnb-Status-pause');
    expect(pauseActions.pause).toHaveBeenCalledWith(false);
  });

  it('switches the recording of all cells, in the guide and beside the title', () => {
    const onRecord = vi.fn();
    const host = show(<LoopsView {...props({ records: false, onRecord })} />);
    expect(host.querySelector('.rfnb-Guide')?.textContent).toContain('rf.steps(range(10))');
    click(host, '.rfnb-Guide-record input');
    redraw(<LoopsView {...props({ records: true, runs: [item(1)], onRecord })} />);
    expect(host.querySelector('.rfnb-Status-record')?.getAttribute('aria-pressed')).toBe('true');
    click(host, '.rfnb-Status-record');
    expect(onRecord.mock.calls).toEqual([[true], [false]]);
    redraw(<LoopsView {...props({ records: null })} />);
    expect(host.querySelector('.rfnb-Status-record, .rfnb-Guide-record')).toBeNull();
  });

  it('inserts each way to record a loop into a new cell', () => {
    const onInsert = vi.fn();
    const host = show(<LoopsView {...props({ onInsert })} />);
    host.querySelectorAll<HTMLElement>('.rfnb-Guide-way button').forEach(button => act(() => button.click()));
    expect(
      onInsert.mock.calls.map(([code]) =>
        code.split('\n').find((line: string) => line.includes('record') || line.includes('steps'))
      )
    ).toEqual(['for t in rf.steps(range(10)):', 'with rf.record_loops():', '%%record_loops']);
    expect(host.querySelector('.rfnb-Guide-example')?.textContent).toContain('total = total + t');
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
    expect(compare[0].textContent).toBe('compare');
    act(() => compare[0].click());
    expect(given.runActions.compare).toHaveBeenCalledWith(3);
    expect(host.querySelector('[data-run="3"] .rfnb-Run-parent')?.textContent).toBe('fork of #2 at 4');
  });

  it('says that of a loop that raised unrecorded there is the last iteration only', () => {
    const host = show(<LoopsView {...props({ runs: [item(2, { steps: 0, is_last_only: true }), item(1)] })} />);
    const sizes = [...host.querySelectorAll('.rfnb-Run-size')].map(size => size.textContent);
    expect(sizes).toEqual(['last iteration only', '12 steps × 2']);
  });

  it('makes a call again, but not that of a fork', () => {
    const given = props({ runs: [item(3, { parent: 2, forked_at: 4 }), item(2)] });
    const host = show(<LoopsView {...given} />);
    const again = [...host.querySelectorAll<HTMLElement>('[aria-label^="Run "]')];
    expect(again.length).toBe(1);
    act(() => again[0].click());
    expect(given.runActions.rerun).toHaveBeenCalledWith(2);
  });

  it('keeps the keyboard where it is when another run of the loop is shown', () => {
    const given = (run: number) => props({ stepper: state({ run: runView({ run }) }), stepperActions: actions() });
    const host = show(<LoopsView {...given(1)} />);
    const button = host.querySelector<HTMLElement>('[data-step=next]')!;
    button.focus();
    redraw(<LoopsView {...given(2)} />);
    expect(document.activeElement).toBe(button);
  });

  it('goes from a run that was dropped to the newest, with the keyboard', () => {
    const stepperActions = actions();
    const host = show(<LoopsView {...props({ stepper: state({ gone: true, dropped: true }), stepperActions })} />);
    expect(host.querySelector('.rfnb-Note')?.textContent).toContain('This run was dropped');
    const slider = host.querySelector<HTMLInputElement>('.rfnb-Transport input')!;
    expect([slider.disabled, slider.ariaDisabled ?? slider.getAttribute('aria-disabled')]).toEqual([false, 'true']);
    click(host, '.rfnb-Note button');
    expect(stepperActions.openNewest).toHaveBeenCalledOnce();
    expect(document.activeElement).toBe(host.querySelector('.rfnb-Stepper'));
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
