import type { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { Session } from '../stepper/session';

/** What the panel shows: the loops of the notebook that the user works in. */
export interface ILoops extends IDisposable {
  /** The notebook that was last active. */
  readonly notebook: NotebookPanel | null;
  /** What its kernel has recorded; null without a kernel. */
  readonly session: Session | null;
  /** What the kernel of any open notebook has recorded. */
  sessionOf(notebook: NotebookPanel): Session | null;
  /** Shows only runs whose name, place or flags contain this. */
  filter: string;
  /** Something of the above, or in the session, has changed. */
  readonly changed: ISignal<ILoops, void>;
  /** A connection to the rfnb of some kernel has come or gone. */
  readonly linkChanged: ISignal<unknown, void>;
  /** The kernel asked to be looked at. */
  readonly opened: ISignal<ILoops, void>;
}

/** The loops of the active notebook: provided once, for the panel, the commands and the marks in the cells. */
export const ILoops = new Token<ILoops>('rfnb-lab:ILoops', 'The recorded loops of the active notebook.');
