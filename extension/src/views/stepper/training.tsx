import * as React from 'react';

import { formatNumber } from '../../numbers';
import type { StepperState } from '../../stepper/stepper_state';
import { IconButton } from '../icon_button';
import { useWords } from '../words';
import { Slider } from './slider';

/** A second slider: the training step of the run. Each shot of a probe is as far from the next one. */
export function Training(props: { state: StepperState; onTrain: (step: number) => void }): JSX.Element | null {
  const words = useWords();
  const { run, trainingTarget, gone, still } = props.state;
  if (!run.training || still) {
    return null;
  }
  const { steps, step, measures } = run.training;
  const last = steps.length - 1;
  const at = Math.max(steps.indexOf(trainingTarget ?? step), 0);
  const told = Object.entries(measures).map(([name, value]) => `${name} ${formatNumber(value)}`);
  const button = (name: 'first' | 'previous' | 'next' | 'last', label: string, to: number) => (
    <IconButton
      icon={name}
      label={label}
      off={gone || to < 0 || to > last || to === at}
      onClick={() => props.onTrain(steps[to])}
      data={{ 'data-training': name }}
    />
  );
  return (
    <div className="rfnb-Transport-row rfnb-Training" role="group" aria-label={words.__('Training steps')}>
      {last > 0 && (
        <>
          <div className="rfnb-Transport-buttons">
            {button('first', words.__('First training step'), 0)}
            {button('previous', words.__('Previous training step (Shift+T)'), at - 1)}
            {button('next', words.__('Next training step (T)'), at + 1)}
            {button('last', words.__('Last training step'), last)}
          </div>
          <Slider
            at={at}
            last={last}
            off={gone}
            label={words.__('Training step')}
            told={words.__('training step %1, %2 of %3', steps[at], at + 1, steps.length)}
            onGoto={to => props.onTrain(steps[to])}
          />
        </>
      )}
      <div
        className="rfnb-Transport-where"
        aria-live="polite"
        title={told.join('\n')}
        data-waiting={steps[at] !== step}
      >
        {words.__('training step')} <b className="rfnb-Training-step">{step}</b>{' '}
        <span className="rfnb-Training-measures">{told.slice(0, 2).join(', ')}</span>
      </div>
    </div>
  );
}
