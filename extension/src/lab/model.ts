import type { NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';

import type { Session } from '../stepper/session';
import type { ILoops } from './tokens';
import type { PausedNotebook } from './tracker';

/** The active notebook and the session of its kernel. */
export interface ITracker {
  readonly notebook: NotebookPanel | null;
  readonly session: Session | null;
  readonly pausedElsewhere: readonly PausedNotebook[];
  sessionOf(notebook: NotebookPanel): Session | null;
  readonly changed: ISignal<ITracker, void>;
  readonly linkChanged: ISignal<ITracker, void>;
}

/** The state of the panel: the session of the active notebook, and the filter. */
export class LoopsModel implements ILoops {
  constructor(tracker: ITracker) {
    this._tracker = tracker;
    tracker.changed.connect(this._onTracker, this);
    document.addEventListener('visibilitychange', this._onVisibility);
    this._onTracker();
  }

  get visible(): boolean {
    return this._visible;
  }

  set visible(visible: boolean) {
    this._visible = visible;
    this._onVisibility();
  }

  get notebook(): NotebookPanel | null {
    return this._tracker.notebook;
  }

  get session(): Session | null {
    return this._session;
  }

  sessionOf(notebook: NotebookPanel): Session | null {
    return this._tracker.sessionOf(notebook);
  }

  get pausedElsewhere(): readonly PausedNotebook[] {
    return this._tracker.pausedElsewhere;
  }

  get linkChanged(): ISignal<unknown, void> {
    return this._tracker.linkChanged;
  }

  get filter(): string {
    return this._filter;
  }

  set filter(filter: string) {
    if (filter !== this._filter) {
      this._filter = filter;
      this._changed.emit();
    }
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get opened(): ISignal<this, void> {
    return this._opened;
  }

  get rerunning(): ISignal<this, string> {
    return this._rerunning;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._onVisibility);
    this._tracker.changed.disconnect(this._onTracker, this);
    this._listen(null);
    Signal.clearData(this);
  }

  private _onTracker(): void {
    this._listen(this._tracker.session);
    this._changed.emit();
  }

  private _listen(session: Session | null): void {
    this._session?.changed.disconnect(this._onSession, this);
    this._session?.opened.disconnect(this._onOpened, this);
    this._session?.rerunning.disconnect(this._onRerunning, this);
    if (this._session !== null && this._session !== session) {
      this._session.watched = false;
    }
    this._session = session;
    this._onVisibility();
    session?.changed.connect(this._onSession, this);
    session?.opened.connect(this._onOpened, this);
    session?.rerunning.connect(this._onRerunning, this);
  }

  private _onVisibility = (): void => {
    if (this._session !== null) {
      this._session.watched = this._visible && !document.hidden;
    }
  };

  private _onSession(): void {
    this._changed.emit();
  }

  private _onOpened(): void {
    this._opened.emit();
  }

  private _onRerunning(_: Session, cell: string): void {
    this._rerunning.emit(cell);
  }

  private _tracker: ITracker;
  private _session: Session | null = null;
  private _visible = false;
  private _filter = '';
  private _isDisposed = false;
  private _changed = new Signal<this, void>(this);
  private _opened = new Signal<this, void>(this);
  private _rerunning = new Signal<this, string>(this);
}
