import type { CommandRegistry } from '@lumino/commands';

import { actionsOf } from '../stepper/actions';
import { stepCommands } from '../stepper/commands';
import { PLAIN, Words } from '../words';
import type { ILoops } from './tokens';

export const OPEN_PANEL = 'rfnb-lab:open-panel';

const NO_ARGUMENTS = { args: { type: 'object' as const, properties: {} } };

/** Adds the commands of the stepper; buttons, menus, the palette and keys refer to them. Returns their ids. */
export function addStepCommands(commands: CommandRegistry, loops: ILoops, words: Words): string[] {
  const table = stepCommands(words);
  for (const { id, label, caption, act } of table) {
    commands.addCommand(id, {
      label,
      caption,
      describedBy: NO_ARGUMENTS,
      isEnabled: () => loops.session?.stepper?.canMove ?? false,
      execute: () => {
        const stepper = loops.session?.stepper;
        if (stepper) {
          act(actionsOf(stepper), stepper.state.line);
        }
      }
    });
  }
  loops.changed.connect(() => commands.notifyCommandChanged());
  return table.map(({ id }) => id);
}

/** Adds the command that shows the panel. */
export function addOpenCommand(commands: CommandRegistry, words: Words, open: () => void): void {
  commands.addCommand(OPEN_PANEL, {
    label: words.__('Show Loops'),
    caption: words.__('Show the panel for stepping through recorded loops'),
    describedBy: NO_ARGUMENTS,
    execute: open
  });
}

/** The settings of the commands, where users can change keys: `jlpm test -u` writes them to schema/commands.json. */
export function commandSettings(): object {
  const shortcuts = [{ id: OPEN_PANEL, shortcut: 'Ctrl Alt L' }, ...stepCommands(PLAIN)];
  return {
    title: 'Loops',
    description:
      'Keys for stepping through recorded loops. Inside the panel, the arrow keys, Home and End also step; ' +
      'N and Shift N go to the next and previous match, . and , to the next and previous op; ' +
      'O shows the ops of the current line, and B marks the line.',
    'jupyter.lab.shortcuts': shortcuts.map(({ id, shortcut }) => ({ command: id, keys: [shortcut], selector: 'body' })),
    type: 'object',
    properties: {},
    additionalProperties: false
  };
}
