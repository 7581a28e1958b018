import { Extension, StateEffect, StateField } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView, WidgetType } from '@codemirror/view';

import type { RunView, StepView } from './schema';

/** What is written into a cell: the current line, and at lines of the body what they computed. */
export interface Marks {
  line: number | null;
  /** By line, 1-based in the cell. */
  texts: ReadonlyMap<number, string>;
}

const LONGEST = 44;
const MOST = 3;

/** The marks for a run's cell; null if its text is no longer what ran. */
export function marksFor(run: RunView, step: StepView | null, line: number | null, cellText: string): Marks | null {
  if (run.cell_text === null || run.cell_text !== cellText) {
    return null;
  }
  const parts = new Map<number, string[]>();
  for (const { line: at, value } of step?.values ?? []) {
    parts.set(at, [...(parts.get(at) ?? []), `${value.name} = ${elide(value.text)}`]);
  }
  return { line, texts: new Map([...parts].map(([at, texts]) => [at, together(texts)])) };
}

/** Show marks in an editor that has the extension; null takes them away. */
export function setMarks(view: EditorView, marks: Marks | null): void {
  view.dispatch({ effects: marksEffect.of(marks) });
}

const marksEffect = StateEffect.define<Marks | null>();

const currentLine = Decoration.line({ class: 'rfnb-cm-current', attributes: { 'aria-current': 'step' } });

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    let result = transaction.docChanged ? Decoration.none : decorations; // what was changed is not what ran
    for (const effect of transaction.effects) {
      if (effect.is(marksEffect)) {
        result = effect.value === null ? Decoration.none : decorate(transaction.state.doc, effect.value);
      }
    }
    return result;
  },
  provide: self => EditorView.decorations.from(self)
});

/** Lets an editor show marks. */
export const marksExtension: Extension = field;

interface Lines {
  readonly lines: number;
  line(n: number): { from: number; to: number };
}

function decorate(doc: Lines, marks: Marks): DecorationSet {
  const ranges = [];
  const numbers = new Set([...marks.texts.keys(), ...(marks.line === null ? [] : [marks.line])]);
  for (const n of [...numbers].sort((a, b) => a - b)) {
    if (n < 1 || n > doc.lines) {
      continue;
    }
    const { from, to } = doc.line(n);
    const text = marks.texts.get(n);
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

/** The last few: a line of an inner Python loop has many. */
function together(texts: string[]): string {
  return `${texts.length > MOST ? '…   ' : ''}${texts.slice(-MOST).join('   ')}`;
}

/** As many of the numbers as there is room for; how many there are in all stays. */
function elide(text: string): string {
  if (text.length <= LONGEST) {
    return text;
  }
  const size = / … (\([^)]*\))$/.exec(text)?.[1];
  const room = LONGEST - 1 - (size ? size.length + 2 : 0);
  const start = text.slice(0, room);
  return size ? `${start.slice(0, start.lastIndexOf(' '))} … ${size}` : `${start}…`;
}
