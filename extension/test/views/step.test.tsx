import * as React from 'react';
import { act } from 'react';
import { describe, expect, it } from 'vitest';

import type { OpView } from '../../src/schema';
import { tokens } from '../../src/views/step/python';
import { Stats } from '../../src/views/value/value';
import { StepperView } from '../../src/views/stepper/stepper';
import { dim, EVIL, opRow, runView, stateRow, stepView, value, watchRow } from '../examples';
import { show, redraw, actions, state, type, click } from '../rendering';

describe('Watches', () => {
  it('shows values and errors, and adds and removes expressions', () => {
    const asked = actions();
    const notes = { watches: ['max(h)', 'hh'], where: null, stops: [], pauses: false };
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

describe('a step of a plain loop', () => {
  it('has no ops, dims lines that did not run, and leads into loops by their lines', () => {
    const asked = actions();
    const step = stepView(3, { lines: { skipped: [5], loops: [3] } });
    const host = show(<StepperView state={state({ step, run: runView({ is_plain: true }) })} actions={asked} />);
    expect([...host.querySelectorAll('[data-skipped="true"]')].map(line => line.getAttribute('data-line'))).toEqual([
      '5'
    ]);
    expect(host.querySelector('.rfnb-Gradients')).toBeNull();
    const links = [...host.querySelectorAll<HTMLElement>('[data-line="3"] .rfnb-Link')];
    expect(links.map(link => link.textContent)).toEqual(['rename axes', 'Step into the loop']);
    links[1].click();
    expect(asked.enter).toHaveBeenCalledWith(3);
  });

  it('has its axes named where they have no names, and renamed', () => {
    const asked = actions();
    const at = (name: string) =>
      stepView(3, { values: [{ line: 3, op: 'Tensor', value: value('x', '1', { dims: [dim({ name })] }) }] });
    const shown = (name: string, change = {}) => (
      <StepperView
        state={state({ step: at(name), line: 3, run: runView({ is_plain: true }), ...change })}
        actions={asked}
      />
    );
    const host = show(shown('axis0'));
    click(host, '[data-line="3"] .rfnb-Link');
    const field = host.querySelector<HTMLInputElement>('.rfnb-Edit input');
    expect([document.activeElement, field?.value]).toEqual([field, '']);
    type(host, '.rfnb-Edit input', 'batch');
    expect(asked.nameAxes).toHaveBeenCalledWith('x', 'batch');
    redraw(shown('axis0', { asides: { name_axes: { waiting: false, error: EVIL, answer: null } } }));
    expect(host.querySelector('.rfnb-Edit [role="alert"]')?.textContent).toBe(EVIL);
    type(host, '.rfnb-Edit input', 'b', 'Escape');
    redraw(shown('batch'));
    expect(host.querySelector('[data-line="3"] .rfnb-Link')?.textContent).toBe('rename axes');
    click(host, '[data-line="3"] .rfnb-Link');
    expect(host.querySelector<HTMLInputElement>('.rfnb-Edit input')?.value).toBe('batch');
    redraw(shown('axis0', { still: true }));
    expect(host.querySelector('[data-line="3"] .rfnb-Link, .rfnb-Edit')).toBeNull();
  });

  it('shows the first and last of many values of a line', () => {
    const values = [...Array(20).keys()].map(i => ({ line: 3, op: 'Tensor', value: value(`x.${i}`, '1') }));
    const host = show(<StepperView state={state({ step: stepView(3, { values }), line: 5 })} actions={actions()} />);
    const names = [...host.querySelectorAll('.rfnb-Line-values .rfnb-Value-name')].map(name => name.textContent);
    expect(names).toEqual(['x.0', 'x.1', 'x.16', 'x.17', 'x.18', 'x.19']);
    expect(host.querySelector('.rfnb-Line-values .rfnb-quiet')?.textContent).toBe('… 14 more values');
  });

  it('lists other functions with loops, which a click records', () => {
    const asked = actions();
    const also = [
      { place: EVIL, added: false },
      { place: 'b:g', added: true }
    ];
    const host = show(<StepperView state={state({ run: runView({ also }) })} actions={asked} />);
    expect(host.querySelector('.rfnb-Others summary')?.textContent).toBe('2 other functions ran loops');
    expect([...host.querySelectorAll('.rfnb-Others code')].map(code => code.textContent)).toEqual([EVIL, 'b:g']);
    click(host, '.rfnb-Others button');
    expect(asked.ask).toHaveBeenCalledWith('record_too', { place: EVIL });
  });

  it('says where variables of an unrecorded loop are from, and runs its cell again', () => {
    const asked = actions();
    const failure = { step: 0, line: 5, error: `ValueError: ${EVIL}` };
    const run = runView({ is_plain: true, raised_in: 'cell-4', failure });
    const host = show(<StepperView state={state({ run, canPause: true })} actions={asked} />);
    const note = host.querySelector('.rfnb-Failure');
    expect(note?.textContent).toContain('raised in line 5');
    expect(note?.textContent).toContain('from the traceback');
    expect(host.querySelector('script')).toBeNull();
    click(host, '.rfnb-Failure .rfnb-Button');
    expect(asked.recordAgain).toHaveBeenCalledOnce();
    redraw(<StepperView state={state({ run })} actions={asked} />);
    expect(host.querySelector('.rfnb-Failure .rfnb-Button')).toBeNull();
  });
});

describe('the measures of a value', () => {
  it('say that no entry is finite, in place of a minimum, mean and maximum of NaN', () => {
    const all = { min: 'nan', mean: 'nan', max: 'nan', std: 'nan', first_bad: 'axis0 0', sampled: null } as const;
    const stats = { ...all, count: 3, nan: 0, inf: 3, histogram: null };
    const host = show(<Stats stats={stats} />);
    expect(host.textContent).toBe('no entry is finite');
    expect(host.querySelector('.rfnb-Stats')?.getAttribute('title')).toContain('0 NaN, 3 infinite');
    expect(host.innerHTML).not.toContain('standard deviation');
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
    redraw(<StepperView state={state({ asides })} actions={asked} />);
    expect(host.querySelector('.rfnb-Edit [role="alert"]')?.textContent).toBe('no label AH');
    type(host, '.rfnb-Edit input', 'B', 'Escape');
    expect(host.querySelector('.rfnb-Edit')).toBeNull();
    expect(asked.fork).toHaveBeenCalledOnce();
  });

  it('closes its field when the fork is there', async () => {
    const asked = { ...actions(), fork: () => Promise.resolve(true) };
    const host = show(<StepperView state={state()} actions={asked} />);
    click(host, '[data-state="h"] .rfnb-State-edit');
    await act(async () => type(host, '.rfnb-Edit input', 'AH'));
    expect(host.querySelector('.rfnb-Edit')).toBeNull();
    expect(document.activeElement).toBe(host.querySelector('[data-state="h"] .rfnb-State-edit')); // not a moment later
  });
});

describe('a state that cannot be edited', () => {
  const reason = `the header assigns \`h\` anew ${EVIL}`;
  const pencil = (host: HTMLElement, name: string) => {
    const place = `[data-state="${name}"] .rfnb-State-edit`;
    const button = host.querySelector<HTMLElement>(place);
    click(host, place);
    return [button?.getAttribute('aria-disabled'), button?.title === reason];
  };

  it('says why on its pencil, which does nothing', () => {
    const host = show(
      <StepperView state={state({ step: stepView(3, { locked: { h: reason } }) })} actions={actions()} />
    );
    expect(pencil(host, 'h')).toEqual(['true', true]);
    expect(host.querySelector('.rfnb-Edit, script')).toBeNull();
    redraw(<StepperView state={state({ step: stepView(3) })} actions={actions()} />);
    expect(pencil(host, 'h')).toEqual(['false', false]);
    expect(host.querySelector('.rfnb-Edit')).not.toBeNull();
  });

  it.each([
    [3, 'the same step', 'false'],
    [2, 'another step', 'true']
  ])('may be editable where the loop is held: at step %i, %s', (at, _, disabled) => {
    const held = { run: 1, name: 'x', step: at, why: '', line: null, can_edit: true, cell_id: null, locked: {} };
    const step = stepView(3, { locked: { h: reason } });
    const host = show(<StepperView state={state({ step, held })} actions={actions()} />);
    expect(pencil(host, 'h')[0]).toBe(disabled);
  });
});

describe('the name of a state', () => {
  it('leads to the line that computes it, if the body has one', () => {
    const asked = actions();
    const names = ['h', 'x.c', 'elsewhere', EVIL];
    const values = [...stepView(3).values, { line: 99, op: 'add', value: value('elsewhere', '1') }];
    const step = stepView(3, { states: names.map(name => stateRow(name, '1', '2')), values });
    const host = show(<StepperView state={state({ step })} actions={asked} />);
    const links = [...host.querySelectorAll<HTMLElement>('.rfnb-State-look')];
    expect(links.map(link => link.textContent)).toEqual(['h', 'x.c']);
    links.forEach(link => link.click());
    expect(asked.look).toHaveBeenNthCalledWith(1, 5);
    expect(asked.look).toHaveBeenNthCalledWith(2, 3);
    expect([...host.querySelectorAll('.rfnb-State-name')].map(name => name.textContent)).toEqual(names);
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

describe('a loop in a line', () => {
  it.each([
    [true, 'Loop', 1],
    [true, 'scan', 1],
    [false, 'Loop', 0],
    [undefined, 'Loop', 0]
  ])('can be stepped into if the kernel says that it is one: %s, %s', (is_loop, op, links) => {
    const step = stepView(3, { values: [{ line: 3, op, is_loop, value: value('x', '1') }] });
    const host = show(<StepperView state={state({ step, line: 3 })} actions={actions()} />);
    const found = [...host.querySelectorAll('.rfnb-Line-acts .rfnb-Link')].map(link => link.textContent);
    expect(found.filter(text => text === 'Step into the loop')).toHaveLength(links);
  });
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
