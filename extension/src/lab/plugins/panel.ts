import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addOpenCommand, OPEN_PANEL } from '../commands';
import { LoopsPanel } from '../panel';
import { ILoops } from '../tokens';

/** Adds the side panel. */
export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:panel',
  description: 'The side panel that steps through recorded loops.',
  autoStart: true,
  requires: [ILoops],
  optional: [ILayoutRestorer, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    loops: ILoops,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const words = (translator ?? nullTranslator).load('rfnb');
    const insert = async (code: string): Promise<void> => {
      await app.commands.execute('notebook:insert-cell-below');
      loops.notebook?.content.activeCell?.model.sharedModel.setSource(code);
    };
    const panel = new LoopsPanel(
      loops,
      translator ?? nullTranslator,
      id => app.shell.activateById(id),
      code => void insert(code)
    );
    app.shell.add(panel, 'right', { rank: 600, type: 'Loops' });
    restorer?.add(panel, panel.id);
    addOpenCommand(app.commands, words, () => app.shell.activateById(panel.id));
    loops.opened.connect(() => app.shell.activateById(panel.id));
    loops.rerunning.connect((_, cell) => {
      const content = loops.notebook?.content;
      const index = content?.widgets.findIndex(({ model }) => model.id === cell) ?? -1;
      if (content && index >= 0) {
        content.deselectAll();
        content.activeCellIndex = index;
        void app.commands.execute('notebook:run-cell');
      }
    });
    palette?.addItem({ command: OPEN_PANEL, category: words.__('Loops') });
  }
};
