import * as React from 'react';

import type { How, PausedView } from '../../schema';
import { IconButton } from '../icon_button';
import { SHAPES } from '../icons';
import { useWords, Words } from '../words';

/** No loop has more steps. */
const MOST_STEPS = 2 ** 31;

/** What the user can do with the running cell of a notebook. */
export interface PauseActions {
  /** Pause at the next step of a recorded loop, or do not. */
  pause: (on: boolean) => void;
  /** Let the paused loop go on; `toMatch`: to the next step that matches the search or a marked line. */
  resume: (how: How, toMatch?: boolean) => void;
  /** Let the paused loop go on to this step. */
  resumeTo: (step: number) => void;
}

/** Which loop is paused in the running cell, why, and the buttons that let it go on. */
export function Paused(props: {
  paused: PausedView;
  /** Whether there is a search or a mark that can match. */
  canMatch: boolean;
  actions: PauseActions;
}): JSX.Element {
  const words = useWords();
  const { paused, canMatch, actions } = props;
  const button = (name: keyof typeof SHAPES, label: string, act: () => void, off = false) => (
    <IconButton icon={name} label={label} onClick={act} off={off} data={{ 'data-resume': name }} />
  );
  return (
    <div className="rfnb-Paused" role="group" aria-label={words.__('Paused loop')}>
      <span className="rfnb-Paused-where" role="status">
        <b>{pausedText(paused, words)}</b> <span className="rfnb-Paused-why">{paused.why}</span>
      </span>
      <span className="rfnb-Paused-buttons">
        {button('next', words.__('Run the next step'), () => actions.resume('step'))}
        {button('nextHit', words.__('Continue to the next match'), () => actions.resume('continue', true), !canMatch)}
        {button('resume', words.__('Continue to the next pause (C)'), () => actions.resume('continue'))}
        {button('last', words.__('Finish the cell without further pauses'), () => actions.resume('run'))}
        {button('stop', words.__('Stop the cell'), () => actions.resume('stop'))}
        <ToStep after={paused.step} onEnter={actions.resumeTo} />
      </span>
    </div>
  );
}

/** Which loop is paused where; `notebook`: the name of another notebook that it is in. */
export function pausedText({ name, step, line }: PausedView, words: Words, notebook: string | null = null): string {
  if (notebook !== null) {
    return line === null
      ? words.__('%1 is paused: %2, after step %3', notebook, name, step)
      : words.__('%1 is paused: %2, step %3, line %4', notebook, name, step, line);
  }
  return line === null
    ? words.__('Paused: %1, after step %2', name, step)
    : words.__('Paused: %1, step %2, line %3', name, step, line);
}

/** A field for a later step; Enter lets the loop go on to it. */
function ToStep({ after, onEnter }: { after: number; onEnter: (step: number) => void }): JSX.Element {
  const words = useWords();
  const label = words.__('Continue to this step');
  const enter = (event: React.KeyboardEvent<HTMLInputElement>) => {
    const field = event.currentTarget;
    if (event.key === 'Enter' && field.value !== '' && field.reportValidity()) {
      onEnter(Number(field.value));
      field.value = '';
    }
  };
  return (
    <label className="rfnb-Paused-to" title={label}>
      {words.__('to step')}{' '}
      <input
        type="number"
        min={after + 1}
        max={MOST_STEPS}
        step={1}
        aria-label={label}
        data-resume="to"
        onKeyDown={enter}
      />
    </label>
  );
}

/** Another notebook that is paused; a click shows it. */
export function PausedElsewhere(props: {
  id: string;
  name: string;
  paused: PausedView;
  onActivate: (id: string) => void;
}): JSX.Element {
  const words = useWords();
  const { id, name, paused, onActivate } = props;
  return (
    <button className="rfnb-Link rfnb-Paused-elsewhere" type="button" onClick={() => onActivate(id)}>
      {pausedText(paused, words, name)}
    </button>
  );
}

/** Pauses the next step of a recorded loop, in the running cell or in the next one. */
export function PauseButton({ on, actions }: { on: boolean; actions: PauseActions }): JSX.Element {
  const words = useWords();
  const label = on
    ? words.__('The next step of a recorded loop will pause; press again to undo')
    : words.__('Pause at the next step of a recorded loop');
  return (
    <IconButton
      icon="pause"
      label={label}
      pressed={on}
      look="rfnb-Small-button rfnb-Status-pause"
      onClick={() => actions.pause(!on)}
    />
  );
}
