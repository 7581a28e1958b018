import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Connection, IKernel } from '../kernel/connection';
import type { PausedView } from '../schema';
import { Session } from '../stepper/session';
import { PLAIN, Words } from '../words';

/** A notebook with a loop that is paused. */
export interface PausedNotebook {
  /** The id of its widget. */
  id: string;
  name: string;
  paused: PausedView;
}

/** Follows the active notebook, and keeps one session for each kernel. */
export class Tracker implements IDisposable {
  constructor(notebooks: INotebookTracker, words: Words = PLAIN) {
    this._words = words;
    this._notebooks = notebooks;
    notebooks.currentChanged.connect(this._onNotebook, this);
    this._onNotebook();
  }

  get notebook(): NotebookPanel | null {
    return this._notebook;
  }

  get session(): Session | null {
    return this._session;
  }

  /** The session of any open notebook's kernel; null without a kernel. */
  sessionOf(notebook: NotebookPanel): Session | null {
    const kernel = notebook.sessionContext.session?.kernel ?? null;
    return kernel === null ? null : this._sessionFor(this._speaker(kernel));
  }

  /** Emits when a connection was made or lost. */
  get linkChanged(): ISignal<this, void> {
    return this._linkChanged;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The other open notebooks that are paused. */
  get pausedElsewhere(): PausedNotebook[] {
    const found: PausedNotebook[] = [];
    this._notebooks.forEach(panel => {
      const kernel = panel.sessionContext.session?.kernel;
      const paused = kernel && this._sessions.get(this._speaker(kernel))?.paused;
      if (paused && panel !== this._notebook) {
        found.push({ id: panel.id, name: panel.title.label, paused });
      }
    });
    return found;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._notebooks.currentChanged.disconnect(this._onNotebook, this);
    this._context?.kernelChanged.disconnect(this._onKernel, this);
    Signal.clearData(this);
  }

  private _onNotebook(): void {
    this._context?.kernelChanged.disconnect(this._onKernel, this);
    this._notebook = this._notebooks.currentWidget;
    this._context = this._notebook?.sessionContext ?? null;
    this._context?.kernelChanged.connect(this._onKernel, this);
    this._onKernel();
  }

  private _onKernel(): void {
    this._session = this._notebook && this.sessionOf(this._notebook);
    this._changed.emit();
  }

  /** The connection that handles comms: of several connections to one kernel only one does. */
  private _speaker(kernel: IKernel): IKernel {
    if (kernel.handleComms) {
      return kernel;
    }
    const others = [] as IKernel[];
    this._notebooks.forEach(panel => {
      const other = panel.sessionContext.session?.kernel;
      if (other && other.id === kernel.id && other.handleComms) {
        others.push(other);
      }
    });
    return others[0] ?? kernel;
  }

  private _sessionFor(kernel: IKernel): Session {
    let session = this._sessions.get(kernel);
    if (!session) {
      const connection = new Connection(kernel, this._words);
      session = new Session(connection);
      const made = session;
      made.pausedChanged.connect(() => this._changed.emit());
      kernel.disposed.connect(() => made.dispose());
      this._sessions.set(kernel, session);
      connection.linkChanged.connect(() => this._linkChanged.emit());
      void connection.connect();
    }
    return session;
  }

  private _words: Words;
  private _notebooks: INotebookTracker;
  private _notebook: NotebookPanel | null = null;
  private _context: ISessionContext | null = null;
  private _session: Session | null = null;
  private _sessions = new WeakMap<IKernel, Session>();
  private _isDisposed = false;
  private _linkChanged = new Signal<this, void>(this);
  private _changed = new Signal<this, void>(this);
}
