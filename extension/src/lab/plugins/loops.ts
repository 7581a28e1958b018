import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { LoopsModel } from '../model';
import { ILoops } from '../tokens';
import { Tracker } from '../tracker';

/** Provides the loops of the active notebook. */
export const loopsPlugin: JupyterFrontEndPlugin<ILoops> = {
  id: 'rfnb-lab:loops',
  description: 'Provides the recorded loops of the active notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator],
  provides: ILoops,
  activate: (_app: JupyterFrontEnd, notebooks: INotebookTracker, translator: ITranslator | null): ILoops =>
    new LoopsModel(new Tracker(notebooks, (translator ?? nullTranslator).load('rfnb')))
};
