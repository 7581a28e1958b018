import type { CommandRegistry } from '@lumino/commands';

import type { Stepper } from '../stepper/stepper';
import { CommandIDs, ILoops } from './tokens';
import type { Words } from '../views/words';

const NO_ARGUMENTS = { args: { type: 'object' as const, properties: {} } };

/** The commands of the stepper: buttons, menus, the palette and keys only refer to them. */
export function addStepCommands(commands: CommandRegistry, loops: ILoops, words: Words): void {
  const add = (id: string, label: string, caption: string, act: (stepper: Stepper) => void) =>
    commands.addCommand(id, {
      label,
      caption,
      describedBy: NO_ARGUMENTS,
      isEnabled: () => loops.session?.stepper?.canMove ?? false,
      execute: () => {
        const stepper = loops.session?.stepper;
        if (stepper) {
          act(stepper);
        }
      }
    });
  add(CommandIDs.first, words.__('Loop: First Step'), words.__('Go to the first step of the run'), s => s.first());
  add(CommandIDs.previous, words.__('Loop: Previous Step'), words.__('Go one step back'), s => s.previous());
  add(CommandIDs.next, words.__('Loop: Next Step'), words.__('Go one step on'), s => s.next());
  add(CommandIDs.last, words.__('Loop: Last Step'), words.__('Go to the last step of the run'), s => s.last());
  add(
    CommandIDs.previousHit,
    words.__('Loop: Back to Hit'),
    words.__('Go back to the last step that was searched for'),
    s => s.goToHit('previous')
  );
  add(CommandIDs.nextHit, words.__('Loop: On to Hit'), words.__('Go on to the next step that was searched for'), s =>
    s.goToHit('next')
  );
  add(CommandIDs.previousOp, words.__('Loop: Previous Op'), words.__('Go one op back'), s => s.stepOp(-1));
  add(CommandIDs.nextOp, words.__('Loop: Next Op'), words.__('Go one op on'), s => s.stepOp(1));
  add(
    CommandIDs.toggleMark,
    words.__('Loop: Mark Line'),
    words.__('Stop at the line that is looked at, or no longer'),
    s => s.toggleStop(s.state.line ?? 0)
  );
  loops.changed.connect(() => commands.notifyCommandChanged());
}

/** The command that shows the panel. */
export function addOpenCommand(commands: CommandRegistry, words: Words, open: () => void): void {
  commands.addCommand(CommandIDs.openPanel, {
    label: words.__('Show Loops'),
    caption: words.__('Show the panel that steps through recorded loops'),
    describedBy: NO_ARGUMENTS,
    execute: open
  });
}
