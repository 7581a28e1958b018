import type { CommandRegistry } from '@lumino/commands';

import type { How } from '../schema';
import { actionsOf } from '../stepper/actions';
import { stepCommands } from '../stepper/commands';
import { conditions } from '../stepper/notes';
import { PLAIN, Words } from '../words';
import type { ILoops } from './tokens';

export const OPEN_PANEL = 'rfnb-lab:open-panel';
export const PAUSE = 'rfnb-lab:pause';

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
  const ids = table.map(({ id }) => id);
  tellOf(commands, loops, ids);
  return ids;
}

/**
 * Tells of a command when it is enabled or toggled, or is not any more.
 *
 * If told of all commands, JupyterLab would draw the toolbars of all notebooks again, at every step.
 */
function tellOf(commands: CommandRegistry, loops: ILoops, ids: readonly string[]): void {
  const state = () => ids.map(id => `${commands.isEnabled(id)} ${commands.isToggled(id)}`);
  let before = state();
  loops.changed.connect(() => {
    const now = state();
    const changed = ids.filter((_, i) => now[i] !== before[i]);
    before = now;
    changed.forEach(id => commands.notifyCommandChanged(id));
  });
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

/** Adds the command that pauses a running cell at the next step of a recorded loop. */
export function addPauseCommand(commands: CommandRegistry, loops: ILoops, words: Words): void {
  commands.addCommand(PAUSE, {
    label: words.__('Loop: Pause at Next Step'),
    caption: words.__('Pause at the next step of a recorded loop, in the running cell or in the next one'),
    describedBy: NO_ARGUMENTS,
    isEnabled: () => loops.session?.connection.link === 'ready',
    isToggled: () => loops.session?.pauses ?? false,
    execute: () => loops.session?.pause(!loops.session.pauses)
  });
  tellOf(commands, loops, [PAUSE]);
}

/** A command that lets a paused loop go on. */
interface ResumeCommand {
  id: string;
  label: string;
  caption: string;
  shortcut?: string;
  how: How;
  /** Whether the loop goes on to the next step that matches the search or a marked line. */
  toMatch?: boolean;
}

function resumeCommands(words: Words): ResumeCommand[] {
  return [
    {
      id: 'rfnb-lab:continue',
      label: words.__('Loop: Continue'),
      caption: words.__('Let the paused loop go on to its next pause'),
      shortcut: 'Ctrl Alt C',
      how: 'continue'
    },
    {
      id: 'rfnb-lab:continue-to-match',
      label: words.__('Loop: Continue to Next Match'),
      caption: words.__('Let the paused loop go on to the next step that matches the search or a marked line'),
      shortcut: 'Ctrl Alt Shift C',
      how: 'continue',
      toMatch: true
    },
    {
      id: 'rfnb-lab:finish-cell',
      label: words.__('Loop: Finish Cell Without Pauses'),
      caption: words.__('Let the paused cell run to its end without further pauses'),
      how: 'run'
    },
    {
      id: 'rfnb-lab:stop-cell',
      label: words.__('Loop: Stop Paused Cell'),
      caption: words.__('End the paused cell by a KeyboardInterrupt'),
      how: 'stop'
    }
  ];
}

/** Adds the commands that let a paused loop go on. Returns their ids. */
export function addResumeCommands(commands: CommandRegistry, loops: ILoops, words: Words): string[] {
  const table = resumeCommands(words);
  for (const { id, label, caption, how, toMatch } of table) {
    commands.addCommand(id, {
      label,
      caption,
      describedBy: NO_ARGUMENTS,
      isEnabled: () => (toMatch ? canMatch(loops) : !!loops.session?.paused),
      execute: () => (toMatch ? loops.session?.stepper?.resume(how, true) : loops.session?.resume(how))
    });
  }
  const ids = table.map(({ id }) => id);
  tellOf(commands, loops, ids);
  return ids;
}

/** Whether the run of the paused loop is shown, and there is a search or a mark that can match. */
function canMatch(loops: ILoops): boolean {
  const state = loops.session?.stepper?.state;
  return !!state?.held && conditions(state.notes, state.run).length > 0;
}

/** The settings of the commands, where users can change keys: `jlpm test -u` writes them to schema/commands.json. */
export function commandSettings(): object {
  const paused: { id: string; shortcut?: string }[] = resumeCommands(PLAIN);
  const commands = [{ id: PAUSE, shortcut: 'Ctrl Alt Shift P' }, ...stepCommands(PLAIN), ...paused];
  const shortcuts = commands.flatMap(({ id, shortcut }) =>
    shortcut === undefined
      ? []
      : ['.rfnb-Panel', '.jp-NotebookPanel'].map(selector => ({ command: id, keys: [shortcut], selector }))
  );
  const items = [{ id: OPEN_PANEL }, ...commands].map(({ id }) => ({ command: id }));
  return {
    title: 'Loops',
    description:
      'Keys for stepping through recorded loops. Inside the panel, the arrow keys, Home and End also step; ' +
      'N and Shift N go to the next and previous match, . and , to the next and previous op; ' +
      'O shows the ops of the current line, B marks the line, C lets a paused loop continue, and ' +
      'T and Shift T go to the next and previous training step of a probe.',
    'jupyter.lab.internationalization': { domain: 'rfnb' },
    'jupyter.lab.menus': {
      main: [
        {
          id: 'jp-mainmenu-run',
          items: [
            { type: 'separator', rank: 900 },
            { type: 'submenu', rank: 901, submenu: { id: 'rfnb-loops-menu', label: 'Loops', items } }
          ]
        }
      ]
    },
    'jupyter.lab.shortcuts': [{ command: OPEN_PANEL, keys: ['Ctrl Alt L'], selector: 'body' }, ...shortcuts],
    type: 'object',
    properties: {},
    additionalProperties: false
  };
}
