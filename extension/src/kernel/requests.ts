import type {
  ComparisonView,
  FoundView,
  GradientsView,
  Message,
  Reply,
  RunItem,
  RunView,
  StepView,
  TensorView
} from '../schema';

/** What the kernel says of itself when it is greeted. */
export interface Hello {
  protocol: number;
  version: string;
  session: string;
}

/** What each command is answered with. */
export interface Answers {
  hello: Hello;
  runs: RunItem[];
  run: RunView;
  step: StepView;
  value: TensorView;
  pin: RunItem[];
  forget: RunItem[];
  find: FoundView;
  fork: RunView;
  rerun: RunItem[];
  loops: RunItem[];
  gradients: GradientsView;
  compare: ComparisonView;
}

/** Why an answer is not there yet: on its way, in the kernel's queue, or behind a running cell. */
export type Waiting = 'asked' | 'queued' | 'busy';

/** Whatever carries commands to a kernel: two comms in the panel, a widget in a cell. */
export interface IRequests {
  request<C extends keyof Answers>(
    command: C,
    args: Message['args'],
    onWaiting?: (waiting: Waiting) => void
  ): Promise<Answers[C]>;
}

interface Pending {
  resolve: (data: unknown) => void;
  reject: (error: Error) => void;
  onWaiting?: (waiting: Waiting) => void;
}

/** Commands and their answers, matched by number; an answer may come in two parts ("busy", later the data). */
export class Requests implements IRequests {
  constructor(send: (message: Message) => void) {
    this._send = send;
  }

  /**
   * Send a command.
   *
   * @param onWaiting - called when the kernel says that the answer will take a while
   */
  request<C extends keyof Answers>(
    command: C,
    args: Message['args'],
    onWaiting?: (waiting: Waiting) => void
  ): Promise<Answers[C]> {
    const id = this._next++;
    return new Promise<Answers[C]>((resolve, reject) => {
      this._pending.set(id, { resolve: data => resolve(data as Answers[C]), reject, onWaiting });
      try {
        this._send({ id, command, args });
      } catch (error) {
        this._pending.delete(id);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  /** Hand an answer to whoever asked; answers that nobody waits for are dropped. */
  receive(reply: Reply): void {
    const pending = this._pending.get(reply.id);
    if (!pending) {
      return;
    }
    if (reply.status === 'queued' || reply.status === 'busy') {
      pending.onWaiting?.(reply.status);
      return;
    }
    this._pending.delete(reply.id);
    if (reply.status === 'ok') {
      pending.resolve(reply.data);
    } else {
      pending.reject(new Error(reply.error ?? 'The kernel could not answer.'));
    }
  }

  /** Nobody will answer any more. */
  abandon(reason: string): void {
    const pending = [...this._pending.values()];
    this._pending.clear();
    pending.forEach(({ reject }) => reject(new Gone(reason)));
  }

  private _send: (message: Message) => void;
  private _pending = new Map<number, Pending>();
  // Two browser tabs may share a kernel, which sends late answers to both: their numbers must not meet.
  private _next = 1000 * Math.floor(Math.random() * 2 ** 31);
}

/** The kernel that should answer is gone. */
export class Gone extends Error {}
