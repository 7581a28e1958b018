import type { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { Session } from '../stepper/session';
import type { PausedNotebook } from './tracker';

/** What the panel shows: the loops of the notebook that the user works in. */
export interface ILoops extends IDisposable {
  /** The notebook that was last active. */
  readonly notebook: NotebookPanel | null;
  /** The session of its kernel; null without a kernel. */
  readonly session: Session | null;
  /** The session of the kernel of any open notebook. */
  sessionOf(notebook: NotebookPanel): Session | null;
  /** The other open notebooks that are paused. */
  readonly pausedElsewhere: readonly PausedNotebook[];
  /** The words of the filter: only runs whose name, place or flags contain them are listed. */
  filter: string;
  /** Whether the panel can be seen. */
  visible: boolean;
  /** Emits when any of the above, or the session, has changed. */
  readonly changed: ISignal<ILoops, void>;
  /** Emits when a connection to some kernel was made or lost. */
  readonly linkChanged: ISignal<unknown, void>;
  /** Emits when the kernel asks to show a run. */
  readonly opened: ISignal<ILoops, void>;
  /** Emits the id of a cell of the notebook that should run again. */
  readonly rerunning: ISignal<ILoops, string>;
}

/** The loops of the active notebook: provided once, for the panel, the commands and the marks in the cells. */
export const ILoops = new Token<ILoops>('rfnb-lab:ILoops', 'The recorded loops of the active notebook.');
