import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { OPEN_PANEL } from '../commands';
import { PausedStatus } from '../status';
import { ILoops } from '../tokens';

/** Shows in the status bar which notebook is paused where. */
export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:status',
  description: 'Shows in the status bar which notebook is paused where.',
  autoStart: true,
  requires: [ILoops],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    loops: ILoops,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    const item = new PausedStatus(loops, (translator ?? nullTranslator).load('rfnb'), notebook => {
      if (notebook !== null) {
        app.shell.activateById(notebook);
      }
      void app.commands.execute(OPEN_PANEL);
    });
    statusBar?.registerStatusItem('rfnb-lab:paused', {
      item,
      align: 'left',
      rank: 100,
      isActive: () => item.isActive,
      activeStateChanged: loops.changed
    });
  }
};
