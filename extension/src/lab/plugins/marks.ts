import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { CellMarks } from '../editor';
import { ILoops } from '../tokens';

/** Marks the current line of the loop in its notebook cell. */
export const marksPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:marks',
  description: 'Marks the current line of the loop, with its values, in the notebook cell.',
  autoStart: true,
  requires: [ILoops, INotebookTracker],
  activate: (_app: JupyterFrontEnd, loops: ILoops, notebooks: INotebookTracker): void => {
    new CellMarks(loops, notebooks);
  }
};
