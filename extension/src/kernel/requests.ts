import type { Commands, Message, Reply } from '../schema';

/** The name of a command. */
export type Command = keyof Commands;

export type Args<C extends Command> = Commands[C]['args'];

export type Answer<C extends Command> = Commands[C]['answer'];

/** Why an answer is not there yet: it is on its way, in the kernel's queue, or waits for a running cell to end. */
export type Waiting = 'asked' | 'queued' | 'busy';

/** Sends commands to a kernel: over two comms in the panel, over a widget in the output of a cell. */
export interface IRequests {
  request<C extends Command>(command: C, args: Args<C>, onWaiting?: (waiting: Waiting) => void): Promise<Answer<C>>;
}

interface Pending {
  resolve: (data: unknown) => void;
  reject: (error: Error) => void;
  onWaiting?: (waiting: Waiting) => void;
}

/** Matches answers to commands by number; an answer may come in two parts ("busy", later the data). */
export class Requests implements IRequests {
  constructor(send: (message: Message) => void) {
    this._send = send;
  }

  /**
   * Send a command.
   *
   * @param onWaiting - called when the kernel says that the answer will take a while
   */
  request<C extends Command>(command: C, args: Args<C>, onWaiting?: (waiting: Waiting) => void): Promise<Answer<C>> {
    const id = this._next++;
    return new Promise<Answer<C>>((resolve, reject) => {
      this._pending.set(id, { resolve: data => resolve(data as Answer<C>), reject, onWaiting });
      try {
        this._send({ id, command, args: { ...args } });
      } catch (error) {
        this._pending.delete(id);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  /** Settle the promise that waits for this answer; an answer that has no such promise is dropped. */
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
      const words = reply.error ?? 'The kernel could not answer.';
      pending.reject(reply.status === 'gone' ? new Dropped(words) : new Error(words));
    }
  }

  /** Reject all promises: no answer will come any more. */
  abandon(reason: string): void {
    const pending = [...this._pending.values()];
    this._pending.clear();
    pending.forEach(({ reject }) => reject(new Gone(reason)));
  }

  private _send: (message: Message) => void;
  private _pending = new Map<number, Pending>();
  // Two browser tabs may share a kernel, which sends late answers to both: their numbers must differ.
  private _next = 1000 * Math.floor(Math.random() * 2 ** 31);
}

/** The error for requests to a kernel that is gone. */
export class Gone extends Error {}

/** The error for requests about a run that the kernel no longer keeps. */
export class Dropped extends Gone {}
