import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { describe, expect, it } from 'vitest';

import { marksExtension, marksFor, setMarks } from '../../src/lab/marks';
import { EVIL, runView, stepView, value } from '../examples';

const run = runView();
const text = run.cell_text ?? '';

function editor(doc: string): EditorView {
  return new EditorView({
    state: EditorState.create({
      doc,
      extensions: [
        marksExtension(
          () => undefined,
          () => undefined
        )
      ]
    }),
    parent: document.body
  });
}

const currentLines = (view: EditorView) => [...view.dom.querySelectorAll('.rfnb-cm-current')].map(l => l.textContent);

describe('marksFor', () => {
  it('gives the current line and what the lines computed', () => {
    const marks = marksFor(run, stepView(2), 3, text);
    expect(marks?.line).toBe(3);
    expect([...(marks?.texts ?? [])]).toEqual([
      [3, 'x = x at 2'],
      [5, 'h = h at 2']
    ]);
  });

  it('marks nothing in a cell that was edited, or in a file', () => {
    expect(marksFor(run, stepView(2), 3, `${text} `)).toBeNull();
    expect(marksFor(runView({ cell_text: null }), stepView(2), 3, text)).toBeNull();
  });

  it('lets the lines of the body be marked that do something', () => {
    const stop = { line: 3, code: run.body[1], kind: 'changes' as const, limit: null };
    const marks = marksFor(run, null, null, text, [stop, { ...stop, line: 5 }]);
    expect([...(marks?.stops ?? [])]).toEqual([
      [3, true],
      [5, false]
    ]);
  });

  it('elides what is long', () => {
    const long = stepView(0, { values: [{ line: 3, op: 'x', value: value('x', 'y'.repeat(200)) }] });
    expect(marksFor(run, long, 3, text)?.texts.get(3)?.length).toBeLessThan(60);
  });

  it('keeps how many numbers there are in all', () => {
    const numbers = '-0.0969 0.0531 -0.143 -0.118 0.0816 -0.117 … (40×512)';
    const step = stepView(0, { values: [{ line: 3, op: 'x', value: value('x', numbers) }] });
    expect(marksFor(run, step, 3, text)?.texts.get(3)).toBe('x = -0.0969 0.0531 -0.143 -0.118 … (40×512)');
  });

  it('has the values of one line in order', () => {
    const values = ['h', 'x', 'h'].map((name, i) => ({ line: 5, op: 'x', value: value(name, `${i}`) }));
    expect(marksFor(run, stepView(0, { values }), 5, text)?.texts.get(5)).toBe('h = 0   h = 2   x = 1');
  });

  it('shows the last of many values of a line', () => {
    const values = [0, 1, 2, 3, 4].map(i => ({ line: 3, op: 'x', value: value(`x${i}`, '1') }));
    expect(marksFor(run, stepView(0, { values }), 3, text)?.texts.get(3)).toBe('…   x2 = 1   x3 = 1   x4 = 1');
  });
});

describe('marksExtension', () => {
  it('dims lines that did not run in the step', () => {
    const step = stepView(2, { lines: { skipped: [3, 99], loops: [] } });
    const view = editor(text);
    setMarks(view, marksFor(run, step, 3, text));
    const skipped = [...view.dom.querySelectorAll('.rfnb-cm-skipped')].map(line => line.textContent);
    expect(skipped).toEqual(['    x = embed(loop.state.y)x = x at 2']);
  });

  it('marks the line and writes values as text', () => {
    const view = editor(text);
    setMarks(view, {
      line: 3,
      failed: null,
      texts: new Map([[3, `x = ${EVIL}`]]),
      skipped: [],
      stops: new Map(),
      values: new Map()
    });
    expect(currentLines(view)).toEqual([`    x = embed(loop.state.y)x = ${EVIL}`]);
    expect(view.dom.querySelector('script')).toBeNull();
    setMarks(view, null);
    expect(currentLines(view)).toEqual([]);
  });

  it('loses the marks at the first keystroke', () => {
    const view = editor(text);
    setMarks(view, { line: 3, failed: null, texts: new Map(), skipped: [], stops: new Map(), values: new Map() });
    view.dispatch({ changes: { from: 0, insert: '#' } });
    expect(currentLines(view)).toEqual([]);
  });

  it('marks lines beside them, and tells of clicks there', () => {
    const clicked: number[] = [];
    const doc = EditorState.create({
      doc: text,
      extensions: [
        marksExtension(
          line => clicked.push(line),
          () => undefined
        )
      ]
    });
    const view = new EditorView({ state: doc, parent: document.body });
    setMarks(view, { line: null, failed: null, texts: new Map(), skipped: [], stops: new Map([[3, true], [5, false]]), values: new Map() }); // prettier-ignore
    const marks = [...view.dom.querySelectorAll<HTMLElement>('.rfnb-cm-stop')];
    expect(marks.map(mark => mark.dataset.marked)).toEqual(['true', 'false']);
    view.dispatch({ changes: { from: 0, insert: '#' } });
    expect(view.dom.querySelectorAll('.rfnb-cm-stop')).toHaveLength(0);
  });

  it('passes over lines that the cell does not have', () => {
    const view = editor('one line');
    setMarks(view, {
      line: 40,
      failed: null,
      texts: new Map([[0, 'a']]),
      skipped: [],
      stops: new Map([[40, true]]),
      values: new Map()
    });
    expect(currentLines(view)).toEqual([]);
  });
});
