import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { addViewRenderer } from '../mime';
import { ILoops } from '../tokens';

/** Shows the HTML of an output whose kernel has gone, instead of a broken widget. */
export const viewsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:views',
  description: 'Shows outputs live while their kernel lives, else as they were saved.',
  autoStart: true,
  requires: [IRenderMimeRegistry, INotebookTracker, ILoops],
  activate: (
    _app: JupyterFrontEnd,
    registry: IRenderMimeRegistry,
    notebooks: INotebookTracker,
    loops: ILoops
  ): void => {
    addViewRenderer(registry, {
      changed: loops.linkChanged,
      find: resolver => {
        const panel = notebooks.find(candidate => candidate.content.rendermime.resolver === resolver);
        const connection = panel ? (loops.sessionOf(panel)?.connection ?? null) : null;
        const { rendermime } = panel?.content ?? {};
        return rendermime
          ? { rendermime, kernel: connection?.kernel.id ?? null, session: connection?.session ?? null }
          : null;
      }
    });
  }
};
