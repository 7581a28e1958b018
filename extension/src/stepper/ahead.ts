import type { Args, IRequests, Waiting } from '../kernel/requests';
import type { StepView } from '../schema';

/** This many answers are kept. */
const KEPT = 12;

type Wish = Args<'step'>;

/** Requests steps, also before the user asks for them: those near the step that is shown. */
export class Ahead {
  constructor(requests: IRequests) {
    this._requests = requests;
  }

  /** The answer, which may be there already. An answer that was an error is requested again. */
  async request(args: Wish, onWaiting: (waiting: Waiting) => void): Promise<StepView> {
    const early = this._answers.get(keyOf(args));
    if (early) {
      try {
        return await early;
      } catch {
        this._answers.delete(keyOf(args));
      }
    }
    const answer = await this._requests.request('step', args, onWaiting);
    this._keep(args, Promise.resolve(answer));
    return answer;
  }

  /** Request steps that the user may want next, unless they are there. */
  expect(wishes: readonly Wish[]): void {
    for (const args of wishes) {
      if (!this._answers.has(keyOf(args))) {
        const answer = this._requests.request('step', args);
        answer.catch(() => undefined); // it is requested again when it is wanted
        this._keep(args, answer);
      }
    }
  }

  /** Forget all answers: the run has changed. */
  clear(): void {
    this._answers.clear();
  }

  private _keep(args: Wish, answer: Promise<StepView>): void {
    this._answers.delete(keyOf(args));
    this._answers.set(keyOf(args), answer);
    const [oldest] = this._answers.keys();
    if (this._answers.size > KEPT) {
      this._answers.delete(oldest);
    }
  }

  private _requests: IRequests;
  private _answers = new Map<string, Promise<StepView>>();
}

function keyOf(args: Wish): string {
  return JSON.stringify(args);
}
