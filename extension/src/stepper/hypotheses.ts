import type { BeamAt, NodeAt } from '../schema';
import { beside } from './beam';
import type { StepRequests, Wish } from './step_requests';
import type { StepperStore } from './stepper_store';

/** Chooses the hypothesis of a search that is shown. */
export class Hypotheses {
  constructor(store: StepperStore, steps: StepRequests) {
    this._store = store;
    this._steps = steps;
  }

  /** Request the step of a node of the tree, and choose its hypothesis; a page without a kernel only has the step. */
  choose(hypothesis: NodeAt | null): void {
    const { step, still } = this._store.state;
    const beam = step?.beam;
    if (beam && hypothesis && still) {
      this._steps.want({ step: hypothesis.step });
    } else if (beam && !still) {
      this._steps.want({
        step: hypothesis?.step ?? this._steps.wanted.step,
        ...this._sequenceOf(beam),
        hypothesis
      });
    }
  }

  /** Choose the hypothesis with the next better (-1) or next worse (+1) score; above the best one are all of them. */
  move(way: 1 | -1): void {
    const { step } = this._store.state;
    if (step?.beam && step.step === this._steps.wanted.step) {
      const { hypothesis } = this._steps.wanted;
      const from = hypothesis === null ? null : hypothesis.step === step.beam.step ? hypothesis.place : step.beam.place;
      this._steps.want({ ...this._sequenceOf(step.beam), hypothesis: beside(step.beam, from, way) });
    }
  }

  /** The sequence that a hypothesis belongs to. */
  private _sequenceOf(beam: BeamAt): Partial<Wish> {
    const { lengths, tags } = this._store.state.run;
    return lengths === null && tags === null ? {} : { sequence: this._steps.wanted.sequence ?? beam.sequence };
  }

  private _store: StepperStore;
  private _steps: StepRequests;
}
