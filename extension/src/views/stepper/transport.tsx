import * as React from 'react';

import { stepNumbers } from '../../numbers';
import { StepperState, stepsBegun } from '../../stepper/stepper_state';
import { IconButton } from '../icon_button';
import { useWords } from '../words';
import { Slider } from './slider';
import { Training } from './training';

/** The slider has room for this many marks; marks that are closer are drawn as one. */
const TRACK = 200;

type Way = 'first' | 'previous' | 'next' | 'last';

/** The state, and what the sliders and the buttons do. */
export interface TransportProps {
  state: StepperState;
  onGoto: (step: number) => void;
  onFirst: () => void;
  onPrevious: () => void;
  onNext: () => void;
  onLast: () => void;
  /** Go to a training step of a probe. */
  onTrain: (step: number) => void;
}

/** The buttons ⏮ ◀ ▶ ⏭, the slider with a mark where each sequence ends, and the number of the step. */
export function Transport(props: TransportProps): JSX.Element {
  const words = useWords();
  const { run, step, target, gone, held } = props.state;
  const at = target ?? step?.step ?? 0;
  const last = stepsBegun(run) - 1;
  const still = gone || last < 0;
  const button = (name: Way, label: string, off: boolean, act: () => void) => (
    <IconButton icon={name} label={label} off={off || still} onClick={act} data={{ 'data-step': name }} />
  );
  return (
    <div className="rfnb-Transport">
      <div className="rfnb-Transport-row" role="group" aria-label={words.__('Steps of the loop')}>
        <div className="rfnb-Transport-buttons">
          {button('first', words.__('First step (Home)'), at <= 0, props.onFirst)}
          {button('previous', words.__('Previous step (←)'), at <= 0, props.onPrevious)}
          {button(
            'next',
            held !== null && at >= last ? words.__('Run the next step (→)') : words.__('Next step (→)'),
            at >= last && held === null,
            props.onNext
          )}
          {button('last', words.__('Last step (End)'), at >= last, props.onLast)}
        </div>
        <Slider
          at={at}
          last={last}
          off={still}
          label={words.__('Step')}
          told={words.__('step %1 of %2', at, stepNumbers(last + 1))}
          onGoto={props.onGoto}
        >
          <Summarized until={run.kept_from ?? 0} steps={last + 1} />
          <EndMarks lengths={run.lengths} steps={last + 1} />
          <HitMarks hits={props.state.find.hits} steps={last + 1} />
        </Slider>
        <Where state={props.state} />
      </div>
      <Training state={props.state} onTrain={props.onTrain} />
    </div>
  );
}

function Where({ state }: { state: StepperState }): JSX.Element {
  const words = useWords();
  const { run, step, target } = state;
  if (stepsBegun(run) === 0) {
    return <div className="rfnb-Transport-where">{words.__('no steps')}</div>;
  }
  const title = words.__('run[%1] in Python: steps count from 0', step?.step ?? 0);
  const away = target !== null && target !== step?.step;
  return (
    <div className="rfnb-Transport-where" aria-live="polite" title={title} data-waiting={away}>
      {words.__('step')} <b className="rfnb-Transport-step">{step ? step.step : '…'}</b>{' '}
      {words.__('of %1', stepNumbers(stepsBegun(run)))}
    </div>
  );
}

/** The part of the slider whose steps have only statistics of their values. */
function Summarized({ until, steps }: { until: number; steps: number }): JSX.Element | null {
  const words = useWords();
  if (until === 0) {
    return null;
  }
  return (
    <div
      className="rfnb-Transport-summarized"
      style={{ '--rfnb-share': Math.min(until / Math.max(steps - 1, 1), 1) } as React.CSSProperties}
      title={words.__('Steps before %1 have statistics only, as the recording has reached its budget', until)}
    />
  );
}

/** A mark above the slider at each matching step; where matches are dense, at some of them. */
function HitMarks({ hits, steps }: { hits: readonly number[]; steps: number }): JSX.Element | null {
  const shown = new Map(hits.map(step => [Math.round((TRACK * step) / Math.max(steps - 1, 1)), step]));
  if (shown.size === 0) {
    return null;
  }
  return (
    <div className="rfnb-Transport-hits" aria-hidden="true">
      {[...shown].map(([at, step]) => (
        <span key={step} data-hit-step={step} style={{ left: `${(100 * at) / TRACK}%` }} />
      ))}
    </div>
  );
}

/** A tick under the slider at the last step of each sequence that is shorter than the longest. */
function EndMarks({ lengths, steps }: { lengths: number[] | null; steps: number }): JSX.Element | null {
  const ends = [...new Set(lengths ?? [])].filter(length => length > 0 && length < steps);
  if (steps < 2 || ends.length === 0 || ends.length > 64) {
    return null;
  }
  return (
    <div className="rfnb-Transport-ends" aria-hidden="true">
      {ends.map(length => (
        <span key={length} style={{ left: `${(100 * (length - 1)) / (steps - 1)}%` }} />
      ))}
    </div>
  );
}
