import type { CodeCell } from '@jupyterlab/cells';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Text } from '@codemirror/state';
import type { EditorView } from '@codemirror/view';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { PausedView, RunView } from '../schema';
import type { StepperState } from '../stepper/stepper_state';
import { Marks, marksExtension, marksFor, setMarks, together } from './marks';
import type { ILoops } from './tokens';

/**
 * Highlights the current line of the run in its cell, and shows the marks beside the lines of all loops.
 *
 * It does this in every open view of the notebooks that share the kernel.
 */
export class CellMarks implements IDisposable {
  constructor(loops: ILoops, notebooks: INotebookTracker) {
    this._loops = loops;
    this._notebooks = notebooks;
    loops.changed.connect(this._schedule, this);
    notebooks.widgetAdded.connect(this._onPanel, this);
    notebooks.forEach(panel => this._onPanel(notebooks, panel));
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._marked.forEach(view => setMarks(view, null));
    this._loops.changed.disconnect(this._schedule, this);
    Signal.clearData(this);
  }

  private _onPanel(_: INotebookTracker, panel: NotebookPanel): void {
    panel.content.modelContentChanged.connect(this._schedule, this); // typing, undoing, moving cells
    panel.content.cellInViewportChanged?.connect(this._schedule, this);
  }

  /** Many changes within a frame cause one drawing. */
  private _schedule(): void {
    if (!this._scheduled) {
      this._scheduled = true;
      requestAnimationFrame(() => {
        this._scheduled = false;
        if (!this._isDisposed) {
          this._draw();
        }
      });
    }
  }

  private _draw(): void {
    const session = this._loops.session;
    const state = session?.stepper?.state ?? null;
    const runs = (session?.bodies ?? []).filter(run => run.cell_id !== null);
    const shown = new Set<EditorView>();
    for (const id of new Set(runs.map(run => run.cell_id))) {
      for (const cell of this._cells(id)) {
        const marks = this._marks(
          runs.filter(run => run.cell_id === id),
          state,
          cell
        );
        const view = marks && this._viewOf(cell);
        if (view) {
          this._show(view, marks);
          shown.add(view);
        }
      }
    }
    this._marked.forEach(view => {
      if (!shown.has(view)) {
        setMarks(view, null);
        this._lastShown.delete(view);
      }
    });
    this._marked = shown;
    this._scroll(state);
  }

  /** The marks of the loops in a cell; null if its text was edited since it ran. */
  private _marks(runs: RunView[], state: StepperState | null, cell: CodeCell): Marks | null {
    const text = cell.model.sharedModel.getSource();
    const all = runs.map(run => {
      const here = state?.run === run && !state.gone ? state : null;
      const stops = this._loops.session?.notes.of(run.loop).stops;
      const marks = marksFor(run, here?.step ?? null, here?.line ?? null, text, stops);
      return marks && !this._lineValues ? { ...marks, texts: new Map() } : marks;
    });
    const valid = all.filter(marks => marks !== null);
    return valid.length > 0 ? together(valid) : null;
  }

  /** The views of a cell, in each panel on the kernel. */
  private _cells(id: string | null | undefined): CodeCell[] {
    const kernel = this._loops.session?.connection.kernel.id;
    const cells: CodeCell[] = [];
    if (id) {
      this._notebooks.forEach(panel => {
        if (panel.sessionContext.session?.kernel?.id === kernel) {
          const cell = panel.content.widgets.find(widget => widget.model.id === id);
          if (cell?.model.type === 'code') {
            cells.push(cell as CodeCell);
          }
        }
      });
    }
    return cells;
  }

  /** Whether values are shown at the ends of lines. */
  get lineValues(): boolean {
    return this._lineValues;
  }

  set lineValues(on: boolean) {
    this._lineValues = on;
    this._schedule();
  }

  /** Emits the line whose condition the user wants to edit. */
  get conditionAsked(): ISignal<this, number> {
    return this._conditionAsked;
  }

  /** Handles a click of the right button beside a line of a cell. */
  private _edit(cell: CodeCell, line: number): void {
    this._toggle(cell, line, true);
    this._conditionAsked.emit(line);
  }

  /** Handles a click beside a line of a cell. */
  private _toggle(cell: CodeCell, line: number, keep = false): void {
    const session = this._loops.session;
    const inside = ({ first_line, body }: RunView) => line > first_line && line < first_line + body.length;
    const runs = session?.bodies.filter(run => run.cell_id === cell.model.id && inside(run)) ?? [];
    const innermost = runs.sort((a, b) => a.body.length - b.body.length)[0];
    if (session && innermost) {
      session.toggleStop(innermost, line, keep);
    }
  }

  private _show(view: EditorView, marks: Marks): void {
    const key = JSON.stringify([marks.line, marks.failed, [...marks.texts], [...marks.stops], [...marks.values]]);
    const doc = view.state.doc; // a new object after each edit: an edit removes marks, even if it is undone at once
    const last = this._lastShown.get(view);
    if (last?.key !== key || last.doc !== doc) {
      this._lastShown.set(view, { key, doc });
      setMarks(view, marks);
    }
  }

  /** Bring the line into view when the user moved to another step or line, or a loop has paused; never otherwise. */
  private _scroll(state: StepperState | null): void {
    const place = state && state.step && !state.gone ? [state.run.run, state.step.step, state.line] : null;
    const last = this._place;
    this._place = place;
    const moved = place !== null && last !== null && place[0] === last[0] && String(place) !== String(last);
    const paused = this._loops.session?.paused ?? null;
    const stops = paused !== null && paused !== this._paused && place?.[0] === paused.run && place[1] === paused.step;
    this._paused = stops ? paused : this._paused;
    if (!(moved || stops) || this._loops.notebook === null) {
      return;
    }
    const { content } = this._loops.notebook;
    const cell = this._cells(state?.run.cell_id).find(cell => content.widgets.includes(cell));
    if (cell && cell.model.sharedModel.getSource() === state?.run.cell_text) {
      void this._reveal(this._loops.notebook, cell, state.line);
    }
  }

  private async _reveal(panel: NotebookPanel, cell: CodeCell, line: number | null): Promise<void> {
    const frame = panel.content.node.getBoundingClientRect();
    let view = this._viewOf(cell);
    if (!view || !view.dom.isConnected) {
      const focused = document.activeElement;
      await panel.content.scrollToCell(cell, 'smart');
      await cell.ready;
      view = this._viewOf(cell);
      if (focused instanceof HTMLElement && focused !== document.activeElement) {
        focused.focus({ preventScroll: true }); // a windowed notebook that replaces cells also moves the focus
      }
    }
    const element = view?.dom.querySelector('.rfnb-cm-current') ?? null;
    const box = element?.getBoundingClientRect();
    if (line !== null && box && (box.top < frame.top || box.bottom > frame.bottom)) {
      element?.scrollIntoView({ block: 'nearest' });
    }
  }

  /** The CodeMirror view of a cell, with the extension for marks; null while a windowed notebook does not show it. */
  private _viewOf(cell: CodeCell): EditorView | null {
    const editor = cell.editor as CodeMirrorEditor | null;
    const view = editor?.editor ?? null;
    if (editor && view && !this._extended.has(view)) {
      this._extended.add(view);
      editor.injectExtension(
        marksExtension(
          line => this._toggle(cell, line),
          line => this._edit(cell, line)
        )
      );
    }
    return view;
  }

  private _loops: ILoops;
  private _notebooks: INotebookTracker;
  private _marked = new Set<EditorView>();
  private _extended = new WeakSet<EditorView>();
  private _lastShown = new WeakMap<EditorView, { key: string; doc: Text }>();
  private _place: (number | null)[] | null = null;
  private _paused: PausedView | null = null; // the pause whose line was last brought into view
  private _scheduled = false;
  private _isDisposed = false;
  private _lineValues = true;
  private _conditionAsked = new Signal<this, number>(this);
}
