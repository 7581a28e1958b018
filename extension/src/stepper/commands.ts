import { PLAIN, Words } from '../words';
import type { StepperActions } from './actions';

/** A key that works while the stepper has the focus. */
export interface StepKey {
  /** `KeyboardEvent.key`; an upper-case letter is pressed with Shift. */
  key: string;
  /** `line`: the current line, 1-based in the file or cell. */
  act: (actions: StepperActions, line: number | null) => unknown;
}

/** A command of JupyterLab that moves the stepper of the panel. */
export interface StepCommand extends StepKey {
  id: string;
  label: string;
  caption: string;
  /** The keys that run the command anywhere in JupyterLab; users can change them. */
  shortcut: string;
}

/** All commands, in the order of the palette. */
export function stepCommands(words: Words): StepCommand[] {
  return [
    {
      id: 'rfnb-lab:first',
      label: words.__('Loop: First Step'),
      caption: words.__('Go to the first step of the run'),
      key: 'Home',
      shortcut: 'Ctrl Alt Shift ,',
      act: actions => actions.first()
    },
    {
      id: 'rfnb-lab:previous',
      label: words.__('Loop: Previous Step'),
      caption: words.__('Go back one step'),
      key: 'ArrowLeft',
      shortcut: 'Ctrl Alt ,',
      act: actions => actions.previous()
    },
    {
      id: 'rfnb-lab:next',
      label: words.__('Loop: Next Step'),
      caption: words.__('Go forward one step'),
      key: 'ArrowRight',
      shortcut: 'Ctrl Alt .',
      act: actions => actions.next()
    },
    {
      id: 'rfnb-lab:last',
      label: words.__('Loop: Last Step'),
      caption: words.__('Go to the last step of the run'),
      key: 'End',
      shortcut: 'Ctrl Alt Shift .',
      act: actions => actions.last()
    },
    {
      id: 'rfnb-lab:previous-hit',
      label: words.__('Loop: Previous Match'),
      caption: words.__('Go to the previous step that matches the search or a marked line'),
      key: 'N',
      shortcut: 'Ctrl Alt P',
      act: actions => actions.goToHit('previous')
    },
    {
      id: 'rfnb-lab:next-hit',
      label: words.__('Loop: Next Match'),
      caption: words.__('Go to the next step that matches the search or a marked line'),
      key: 'n',
      shortcut: 'Ctrl Alt N',
      act: actions => actions.goToHit('next')
    },
    {
      id: 'rfnb-lab:previous-op',
      label: words.__('Loop: Previous Op'),
      caption: words.__('Go back one op'),
      key: ',',
      shortcut: 'Ctrl Alt Shift O',
      act: actions => actions.stepOp(-1)
    },
    {
      id: 'rfnb-lab:next-op',
      label: words.__('Loop: Next Op'),
      caption: words.__('Go forward one op'),
      key: '.',
      shortcut: 'Ctrl Alt O',
      act: actions => actions.stepOp(1)
    },
    {
      id: 'rfnb-lab:previous-training',
      label: words.__('Loop: Previous Training Step'),
      caption: words.__('Show the run of a probe at the training step before'),
      key: 'T',
      shortcut: 'Ctrl Alt Shift Y',
      act: actions => actions.nextTraining(-1)
    },
    {
      id: 'rfnb-lab:next-training',
      label: words.__('Loop: Next Training Step'),
      caption: words.__('Show the run of a probe at the training step after'),
      key: 't',
      shortcut: 'Ctrl Alt Y',
      act: actions => actions.nextTraining(1)
    },
    {
      id: 'rfnb-lab:toggle-mark',
      label: words.__('Loop: Toggle Mark on Current Line'),
      caption: words.__('Mark or unmark the current line; Previous Match and Next Match stop at marked lines'),
      key: 'b',
      shortcut: 'Ctrl Alt B',
      act: (actions, line) => line !== null && actions.toggleStop(line)
    }
  ];
}

/** All keys: those of the commands, and of actions that make sense only while the stepper has the focus. */
export const STEP_KEYS: readonly StepKey[] = [
  ...stepCommands(PLAIN),
  { key: 'c', act: actions => actions.resume('continue') },
  { key: 'ArrowUp', act: actions => actions.lookOn(-1) },
  { key: 'ArrowDown', act: actions => actions.lookOn(1) },
  { key: '[', act: actions => actions.nextHypothesis(-1) },
  { key: ']', act: actions => actions.nextHypothesis(1) },
  { key: 'o', act: actions => actions.toggleOps() }
];
