import { Extension, Facet, Prec, RangeSet, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  DecorationSet,
  EditorView,
  gutter,
  GutterMarker,
  hoverTooltip,
  Tooltip,
  WidgetType
} from '@codemirror/view';

import type { RunView, StepView } from '../schema';
import { holds, Stop } from '../stepper/notes';
import { PLAIN, Words } from '../words';

/** What is shown in the editor of a cell: the current line, values at the lines of the body, and marks. */
export interface Marks {
  line: number | null;
  /** The line where the run failed, at its last step. */
  failed: number | null;
  /** The values by line, 1-based in the cell. */
  texts: ReadonlyMap<number, string>;
  /** The lines whose code did not run in the step. */
  skipped: readonly number[];
  /** By line: whether it is marked. Only these lines can be marked. */
  stops: ReadonlyMap<number, boolean>;
  /** What the pointer over a variable shows: its value at the step. */
  values: ReadonlyMap<string, string>;
}

const LONGEST = 44;
const MOST = 3;

/** The marks for a run's cell; null if its text was edited since it ran. */
export function marksFor(
  run: RunView,
  step: StepView | null,
  line: number | null,
  cellText: string,
  stops: readonly Stop[] = []
): Marks | null {
  if (run.cell_text === null || run.cell_text !== cellText) {
    return null;
  }
  const parts = new Map<number, [string, boolean][]>();
  const changed = new Set((step?.states ?? []).filter(({ change }) => change !== 0).map(({ name }) => name));
  for (const { line: at, value } of step?.values ?? []) {
    const text = `${value.name} = ${elide(value.text)}`;
    parts.set(at, [...(parts.get(at) ?? []), [text, changed.has(value.name)]]);
  }
  const marked = new Set(stops.filter(stop => holds(stop, run)).map(stop => stop.line));
  return {
    line,
    failed: step !== null && run.failure?.step === step.step ? run.failure.line : null,
    texts: new Map([...parts].map(([at, texts]) => [at, few(changedFirst(texts))])),
    skipped: step?.lines?.skipped ?? [],
    stops: new Map(stopLines(run).map(at => [at, marked.has(at)])),
    values: new Map(step === null ? [] : valuesOf(step))
  };
}

/** The texts of states that changed, then the others. */
function changedFirst(texts: [string, boolean][]): string[] {
  return [true, false].flatMap(first => texts.filter(([, changed]) => changed === first).map(([text]) => text));
}

/** The text for each variable: states before and after the step, and values. */
function valuesOf(step: StepView): [string, string][] {
  const states = step.states.map(({ name, before, after }): [string, string] => [
    name,
    `${before.text} → ${after.text}`
  ]);
  const values = step.values.map(({ value }): [string, string] => [
    value.name,
    [value.text, `${value.dims.map(({ name, size }) => `${name}:${size}`).join(' ')} ${value.dtype}`.trim()].join('\n')
  ]);
  return [...values, ...states];
}

/** All marks of the loops in one cell. */
export function together(all: readonly Marks[]): Marks {
  return {
    line: all.find(marks => marks.line !== null)?.line ?? null,
    failed: all.find(marks => marks.failed !== null)?.failed ?? null,
    texts: new Map(all.flatMap(marks => [...marks.texts])),
    skipped: all.flatMap(marks => marks.skipped),
    stops: new Map(all.flatMap(marks => [...marks.stops])),
    values: new Map(all.flatMap(marks => [...marks.values]))
  };
}

/** The lines of the body, without the `with` line and those that compute nothing. */
function stopLines({ body, first_line }: RunView): number[] {
  return body.flatMap((text, i) => (i > 0 && /^\s*[^\s#]/.test(text) ? [first_line + i] : []));
}

/** Show marks in an editor that has the extension; null removes them. */
export function setMarks(view: EditorView, marks: Marks | null): void {
  view.dispatch({ effects: marksEffect.of(marks) });
}

const marksEffect = StateEffect.define<Marks | null>();

const failedLine = Decoration.line({ class: 'rfnb-cm-failed' });
const skippedLine = Decoration.line({ class: 'rfnb-cm-skipped' });
const currentLine = Decoration.line({ class: 'rfnb-cm-current', attributes: { 'aria-current': 'step' } });

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    let result = transaction.docChanged ? Decoration.none : decorations; // the text is no longer the one that ran
    for (const effect of transaction.effects) {
      if (effect.is(marksEffect)) {
        result = effect.value === null ? Decoration.none : decorate(transaction.state.doc, effect.value);
      }
    }
    return result;
  },
  provide: self => EditorView.decorations.from(self)
});

const language = Facet.define<Words, Words>({ combine: all => all[0] ?? PLAIN });

class StopMarker extends GutterMarker {
  constructor(marked: boolean) {
    super();
    this._marked = marked;
  }

  eq(other: StopMarker): boolean {
    return other._marked === this._marked;
  }

  toDOM(view: EditorView): HTMLElement {
    const words = view.state.facet(language);
    const node = document.createElement('div');
    node.className = 'rfnb-cm-stop';
    node.dataset.marked = String(this._marked);
    node.title = this._marked
      ? words.__('Remove the mark; right click: its condition')
      : words.__('Mark this line, so that the search of the panel stops there; right click: under a condition');
    node.textContent = '◆';
    return node;
  }

  private _marked: boolean;
}

const MARKED = new StopMarker(true);
const FREE = new StopMarker(false);

const stopsField = StateField.define<RangeSet<GutterMarker>>({
  create: () => RangeSet.empty,
  update(markers, transaction) {
    let result = transaction.docChanged ? RangeSet.empty : markers;
    for (const effect of transaction.effects) {
      if (effect.is(marksEffect)) {
        result = effect.value === null ? RangeSet.empty : markersFor(transaction.state.doc, effect.value.stops);
      }
    }
    return result;
  }
});

const valuesField = StateField.define<Marks['values']>({
  create: () => new Map(),
  update(values, transaction) {
    let result = transaction.docChanged ? new Map<string, string>() : values;
    for (const effect of transaction.effects) {
      if (effect.is(marksEffect)) {
        result = new Map(effect.value?.values);
      }
    }
    return result;
  }
});

/** Shows the value of the variable under the pointer. */
const hover = hoverTooltip((view, pos): Tooltip | null => {
  const word = view.state.wordAt(pos);
  const text = word && view.state.field(valuesField).get(view.state.sliceDoc(word.from, word.to));
  if (!word || text === undefined) {
    return null;
  }
  const create = () => {
    const dom = document.createElement('div');
    dom.className = 'rfnb-cm-hover';
    dom.textContent = text;
    return { dom };
  };
  return { pos: word.from, end: word.to, above: true, create };
});

/**
 * Lets an editor show marks; calls `toggle` on clicks beside lines that can be marked, and `edit` on clicks of the right
 * button, which are for the condition of the mark.
 */
export function marksExtension(
  toggle: (line: number) => void,
  edit: (line: number) => void,
  words: Words = PLAIN
): Extension {
  const strip = gutter({
    class: 'rfnb-cm-gutter',
    markers: view => view.state.field(stopsField),
    domEventHandlers: {
      mousedown: (view, block, event) =>
        (event as MouseEvent).button === 0 && atMark(view, block.from, line => toggle(line)),
      contextmenu: (view, block, event) =>
        atMark(view, block.from, line => {
          event.preventDefault();
          event.stopPropagation();
          edit(line);
        })
    }
  });
  return [language.of(words), field, stopsField, valuesField, hover, Prec.lowest(strip)];
}

/** Calls `act` with the line number if the line can be marked; returns whether it can. */
function atMark(view: EditorView, from: number, act: (line: number) => void): boolean {
  let can = false;
  view.state.field(stopsField).between(from, from, () => void (can = true));
  if (can) {
    act(view.state.doc.lineAt(from).number);
  }
  return can;
}

function markersFor(doc: Lines, stops: Marks['stops']): RangeSet<GutterMarker> {
  const lines = [...stops].filter(([n]) => n >= 1 && n <= doc.lines).sort(([a], [b]) => a - b);
  return RangeSet.of(lines.map(([n, marked]) => (marked ? MARKED : FREE).range(doc.line(n).from)));
}

interface Lines {
  readonly lines: number;
  line(n: number): { from: number; to: number };
}

function decorate(doc: Lines, marks: Marks): DecorationSet {
  const ranges = [];
  const lines = [marks.line, marks.failed].filter(n => n !== null);
  const numbers = new Set([...marks.texts.keys(), ...marks.skipped, ...lines]);
  for (const n of [...numbers].sort((a, b) => a - b)) {
    if (n < 1 || n > doc.lines) {
      continue;
    }
    const { from, to } = doc.line(n);
    const text = marks.texts.get(n);
    if (marks.skipped.includes(n)) {
      ranges.push(skippedLine.range(from));
    }
    if (n === marks.failed) {
      ranges.push(failedLine.range(from));
    }
    if (n === marks.line) {
      ranges.push(currentLine.range(from));
    }
    if (text !== undefined) {
      ranges.push(Decoration.widget({ widget: new LineText(text, n === marks.line), side: 1 }).range(to));
    }
  }
  return Decoration.set(ranges, true);
}

class LineText extends WidgetType {
  constructor(text: string, current: boolean) {
    super();
    this._text = text;
    this._current = current;
  }

  eq(other: LineText): boolean {
    return other._text === this._text && other._current === this._current;
  }

  toDOM(): HTMLElement {
    const node = document.createElement('span');
    node.className = 'rfnb-cm-value';
    node.dataset.current = String(this._current);
    node.textContent = this._text;
    return node;
  }

  ignoreEvent(): boolean {
    return false;
  }

  private _text: string;
  private _current: boolean;
}

/** The last few texts: a line in an inner Python loop has many. */
function few(texts: string[]): string {
  return `${texts.length > MOST ? '…   ' : ''}${texts.slice(-MOST).join('   ')}`;
}

/** As many numbers as there is room for, and their total count. */
function elide(text: string): string {
  if (text.length <= LONGEST) {
    return text;
  }
  const size = / … (\([^)]*\))$/.exec(text)?.[1];
  const room = LONGEST - 1 - (size ? size.length + 2 : 0);
  const start = text.slice(0, room);
  return size ? `${start.slice(0, start.lastIndexOf(' '))} … ${size}` : `${start}…`;
}
