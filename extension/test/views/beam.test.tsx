import * as React from 'react';
import { act } from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { BeamAt } from '../../src/schema';
import { grown } from '../../src/stepper/beam';
import type { StepperState } from '../../src/stepper/stepper_state';
import { StepperView } from '../../src/views/stepper/stepper';
import { beamAt, beamColumn, EVIL, runView, stepView } from '../examples';
import { actions, click, press, show, state } from '../rendering';

function searching(beam: BeamAt, change: Partial<StepperState> = {}): StepperState {
  const run = runView({ is_search: true });
  return state({ run, step: stepView(beam.step, { beam }), tree: grown(null, beam), ...change });
}

describe('Beam', () => {
  it('draws the tree up to the step, and lists its hypotheses', () => {
    const beam = { ...beamAt(3), columns: beamAt(5).columns };
    const host = show(<StepperView state={searching(beam)} actions={actions()} />);
    expect([...host.querySelectorAll('[data-column]')].map(column => column.getAttribute('data-column'))).toEqual(
      ['0', '1', '2', '3'] // not those of later steps, which were shown before
    );
    const cells = [...host.querySelectorAll('[data-place]')].map(row =>
      [...row.children].map(cell => cell.textContent)
    );
    expect(cells).toEqual([
      ['1', 'b3', '−0.5', '−0.4', 'rank 1'],
      ['2', 'a3▣ ended', '−1.5', '−1.1', 'rank 2']
    ]);
  });

  it('tells what each node is below the best, which is what its shade means', () => {
    const host = show(<StepperView state={searching(beamAt(2))} actions={actions()} />);
    const title = (node: string) => host.querySelector(`[data-node="${node}"] title`)?.textContent;
    expect([title('1:0'), title('1:1')]).toEqual(['a1  −1.5\n1 below the best', 'b1  −0.5']);
  });

  it('chooses step and hypothesis by a click on a node, a row, or a key', () => {
    const asked = actions();
    const host = show(<StepperView state={searching(beamAt(3))} actions={asked} />);
    act(() => host.querySelector('[data-node="1:0"]')!.dispatchEvent(new MouseEvent('click', { bubbles: true })));
    click(host, '[data-place="0"] button');
    expect(vi.mocked(asked.chooseHypothesis).mock.calls).toEqual([[{ step: 1, place: 0 }], [{ step: 3, place: 0 }]]);
    press(host, '[');
    press(host, ']', '[data-place="0"] button');
    press(host, ']', '.rfnb-Stepper', { altKey: true, ctrlKey: true }); // AltGr
    press(host, ']', '.rfnb-Stepper', { ctrlKey: true });
    expect(vi.mocked(asked.nextHypothesis).mock.calls).toEqual([[-1], [1], [1]]);
  });

  it('marks the path of the chosen hypothesis, and says where it was lost', () => {
    const chosen = beamAt(3, { hypothesis: { step: 1, place: 0 }, place: 0 });
    const host = show(<StepperView state={searching(chosen)} actions={actions()} />);
    const path = [...host.querySelectorAll('[data-node][data-chosen=true]')].map(node =>
      node.getAttribute('data-node')
    );
    expect(path).toEqual(['0:1', '1:0', '2:1', '3:0']);
    const lost = beamAt(3, { hypothesis: { step: 1, place: 0 }, place: null, lost: 2 });
    const note = show(<StepperView state={searching(lost)} actions={actions()} />).querySelector('.rfnb-Beam-note');
    expect(note?.textContent).toContain('at step 2');
  });

  it('keeps a pruned candidate of the current step', () => {
    const asked = actions();
    const columns = [...beamAt(2).columns, beamColumn(3, true)];
    const host = show(<StepperView state={searching(beamAt(3, { columns }))} actions={asked} />);
    press(host, 'Enter', '.rfnb-Beam-keep');
    expect(vi.mocked(asked.keep).mock.calls).toEqual([[3, 0]]);
  });

  it('does not keep one that the kernel would refuse, and says why', () => {
    const asked = actions();
    const columns = [...beamAt(2).columns, beamColumn(3, true)];
    const beam = beamAt(3, { columns, locked: 'the model has changed since' });
    const host = show(<StepperView state={searching(beam)} actions={asked} />);
    press(host, 'Enter', '.rfnb-Beam-keep');
    const pencil = host.querySelector('.rfnb-Beam-keep')!;
    act(() => void pencil.dispatchEvent(new MouseEvent('click', { bubbles: true })));
    expect(asked.keep).not.toHaveBeenCalled();
    expect(pencil.getAttribute('aria-disabled')).toBe('true');
    expect(pencil.querySelector('title')?.textContent).toBe('the model has changed since');
  });

  it('shows labels and names as text, and a page without a kernel only goes to steps', () => {
    const evil = beamAt(2, { name: EVIL });
    evil.columns.forEach(column => column.nodes.forEach(node => (node.text = EVIL)));
    evil.rows.forEach(row => ((row.text = EVIL), (row.parts = { [EVIL]: 1 })));
    const host = show(<StepperView state={searching(evil, { still: true })} actions={actions()} />);
    expect(host.querySelector('.rfnb-Beam')?.textContent).toContain(EVIL);
    expect(host.querySelector('script')).toBeNull();
    expect(host.querySelector('.rfnb-Beam button')).toBeNull();
  });

  it('says so if no hypothesis is left', () => {
    const host = show(<StepperView state={searching(beamAt(2, { rows: [] }))} actions={actions()} />);
    expect(host.querySelector('.rfnb-Beam')?.textContent).toContain('No hypothesis is left.');
  });

  it('offers the conditions of a search in searches only', () => {
    const kinds = (host: HTMLElement) => [...host.querySelectorAll<HTMLOptionElement>('.rfnb-Find-kind option')];
    const names = (host: HTMLElement) => kinds(host).map(option => option.value);
    expect(names(show(<StepperView state={searching(beamAt(1))} actions={actions()} />))).toContain('falls out');
    expect(names(show(<StepperView state={state()} actions={actions()} />))).not.toContain('falls out');
  });
});
