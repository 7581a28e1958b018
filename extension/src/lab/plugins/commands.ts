import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { addPauseCommand, addResumeCommands, addStepCommands, PAUSE } from '../commands';
import { ILoops } from '../tokens';

/** Adds the commands of the stepper to JupyterLab and its palette. */
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
    addPauseCommand(app.commands, loops, words);
    const steps = addStepCommands(app.commands, loops, words);
    for (const command of [PAUSE, ...steps, ...addResumeCommands(app.commands, loops, words)]) {
      palette?.addItem({ command, category: words.__('Loops') });
    }
  }
};
