import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addStepCommands } from '../commands';
import { CommandIDs, ILoops } from '../tokens';

/** Adds the commands; their keys are in schema/commands.json, where users can change them. */
export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'rfnb-lab:commands',
  description: 'Commands that step through the run that the panel shows.',
  autoStart: true,
  requires: [ILoops],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    loops: ILoops,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const words = (translator ?? nullTranslator).load('rfnb');
    addStepCommands(app.commands, loops, words);
    for (const command of Object.values(CommandIDs).filter(id => id !== CommandIDs.openPanel)) {
      palette?.addItem({ command, category: words.__('Loops') });
    }
  }
};
