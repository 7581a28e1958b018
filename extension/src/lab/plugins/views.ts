import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addViewRenderer, IHomes } from '../mime';
import { ILoops } from '../tokens';

/** Makes the HTML of outputs interactive, and shows it instead of a broken widget when the kernel has gone. */
export const viewsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:views',
  description: 'Shows outputs live while their kernel lives, else as they were saved.',
  autoStart: true,
  requires: [IRenderMimeRegistry, INotebookTracker, ILoops],
  optional: [ITranslator],
  activate: (
    _app: JupyterFrontEnd,
    registry: IRenderMimeRegistry,
    notebooks: INotebookTracker,
    loops: ILoops,
    translator: ITranslator | null
  ): void => {
    const words = (translator ?? nullTranslator).load('rfnb');
    const homes: IHomes = {
      changed: loops.linkChanged,
      find: resolver => {
        const panel = notebooks.find(candidate => candidate.content.rendermime.resolver === resolver);
        const connection = panel ? (loops.sessionOf(panel)?.connection ?? null) : null;
        const { rendermime } = panel?.content ?? {};
        return rendermime
          ? { rendermime, kernel: connection?.kernel.id ?? null, session: connection?.session ?? null }
          : null;
      }
    };
    addViewRenderer(registry, homes, words);
  }
};
