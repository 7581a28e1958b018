import { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';

/** How long a kernel that is idle may take to say what it is, in ms. */
const TIMEOUT = 1500;

/** The part of a comm that is used here. */
export type Comm = Pick<Kernel.IComm, 'send' | 'open' | 'onMsg' | 'onClose' | 'isDisposed' | 'dispose'>;

/**
 * Whether the kernel is in a cell that began before this page was loaded: JupyterLab learns what a kernel supports
 * only from its main thread, which answers after the cell.
 */
export async function isBusySinceBefore(kernel: Pick<Kernel.IKernelConnection, 'info'>): Promise<boolean> {
  const late = new Promise<boolean>(resolve => setTimeout(() => resolve(true), TIMEOUT));
  return Promise.race([kernel.info.then(() => false), late]);
}

/**
 * Make a comm speak to a subshell of its own, which is requested over the control channel.
 *
 * @returns null if the kernel has no subshells.
 */
export async function onOwnSubshell(kernel: Kernel.IKernelConnection, comm: Kernel.IComm): Promise<Comm | null> {
  const subshell = await createSubshell(kernel);
  if (subshell === null) {
    return null;
  }
  const options = { channel: 'shell', session: kernel.clientId, subshellId: subshell } as const;
  comm.open = data => {
    const content = { comm_id: comm.commId, target_name: comm.targetName, data: (data ?? {}) as JSONObject };
    const message = KernelMessage.createMessage<KernelMessage.ICommOpenMsg<'shell'>>({
      ...options,
      msgType: 'comm_open',
      content
    });
    return kernel.sendShellMessage(message, false, true);
  };
  comm.send = data => {
    const content = { comm_id: comm.commId, data: data as JSONObject };
    const message = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'shell'>>({
      ...options,
      msgType: 'comm_msg',
      content
    });
    return kernel.sendShellMessage(message, false, true);
  };
  return comm;
}

async function createSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  const request = KernelMessage.createMessage<KernelMessage.ICreateSubshellRequestMsg>({
    msgType: 'create_subshell_request',
    channel: 'control',
    session: kernel.clientId,
    content: {}
  });
  const reply = (await kernel.sendControlMessage(request, true, true).done) as KernelMessage.ICreateSubshellReplyMsg;
  return (reply.content as { subshell_id?: string }).subshell_id ?? null;
}
