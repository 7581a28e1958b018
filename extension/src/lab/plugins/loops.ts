import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { LoopsModel } from '../model';
import { ILoops } from '../tokens';
import { Tracker } from '../tracker';

/** Provides the loops of the active notebook. */
export const loopsPlugin: JupyterFrontEndPlugin<ILoops> = {
  id: 'rfnb-lab:loops',
  description: 'Provides the recorded loops of the active notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: ILoops,
  activate: (_app: JupyterFrontEnd, notebooks: INotebookTracker): ILoops => new LoopsModel(new Tracker(notebooks))
};
