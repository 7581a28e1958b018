import * as React from 'react';

import type { RunView, StepView } from '../../schema';
import { Icon } from '../icons';
import { useWords, Words } from '../words';

/** Whether the replay gave the same states as the run. */
export function Check({ step: { check, agrees } }: { step: StepView }): JSX.Element {
  return (
    <span className="rfnb-Check" data-agrees={agrees} title={aboutCheck(check, useWords())}>
      {agrees && <Icon name="check" />}
      {check}
    </span>
  );
}

/** What the marks of the stepper mean. */
export function Marks({ run, step }: { run: RunView; step: StepView }): JSX.Element {
  const words = useWords();
  const check = aboutCheck(step.check, words);
  const rows: [string, string][] = [
    ...(check ? [[step.check, check] as [string, string]] : []),
    ['Δ', words.__('the largest absolute change of a state in this step')],
    ['≠', words.__('differs from the run that is compared')],
    ['╱╱', words.__('hatched: padding, which is in no statistics')]
  ];
  if (run.is_plain) {
    rows.push([words.__('dimmed'), words.__('a line that did not run in this step')]);
  }
  if (run.is_search) {
    rows.push(
      ['▣', words.__('a hypothesis that ends here')],
      ['·', words.__('a hypothesis that had ended before')],
      [words.__('blue'), words.__('the bluer, the better is its score among those of the step')],
      [words.__('thick line'), words.__('leads to the best hypothesis')],
      [words.__('dashed frame'), words.__('pruned: found no place in the beam; its pencil gives it one')]
    );
  }
  return (
    <details className="rfnb-Marks">
      <summary>{words.__('Marks')}</summary>
      <dl>
        {rows.map(([mark, meaning]) => (
          <React.Fragment key={mark}>
            <dt>{mark}</dt>
            <dd>{meaning}</dd>
          </React.Fragment>
        ))}
      </dl>
    </details>
  );
}

/** What the kernel says about a step, explained. */
function aboutCheck(check: string, words: Words): string | undefined {
  switch (check.split(':')[0]) {
    case 'as it was':
      return words.__('the values that the lines assigned; nothing is computed again');
    case 'replay agrees':
      return words.__('the step was computed again, and gave the states of the run');
    case 'replay differs':
      return words.__('the step was computed again, and did not give the states of the run');
    case "with today's weights":
      return words.__('the step was computed again, with weights that have changed since the run');
    default:
      return undefined;
  }
}
