import { execFileSync } from 'node:child_process';

/** Hosts as network namespaces behind one bridge; this process is on it too. */
export interface Network extends Disposable {
  /** Addresses of this process, for its servers: not loopback, and reached by all hosts. */
  readonly addresses: { readonly redis: string; readonly postgres: string; readonly service: string };
  readonly subnet: string;
  /** The command that runs another one on a host, and the host's address. */
  readonly hosts: readonly { readonly wrapper: readonly string[]; readonly address: string }[];
}

/** Why there can be no network here; null: there can. Asked for once. */
export function whyNoNetwork(): string | null {
  answer ??= { why: findWhyNot() };
  return answer.why;
}

let answer: { readonly why: string | null } | undefined;

function findWhyNot(): string | null {
  if (process.getuid?.() !== 0) return 'only root may make network namespaces';
  const name = `sync-${process.pid}-try`;
  try {
    run('openssl', 'version');
    run('ip', 'netns', 'add', name);
    run('ip', 'link', 'add', `c${process.pid}t`, 'type', 'bridge');
    return null;
  } catch (error) {
    const said = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    return `no network namespaces can be made here (needed: openssl, iproute2 and the right to use them): ${said}`;
  } finally {
    for (const args of [
      ['link', 'del', `c${process.pid}t`],
      ['netns', 'del', name],
    ]) {
      try {
        run('ip', ...args);
      } catch {
        // It was not made.
      }
    }
  }
}

/** `count` hosts. Dispose it when no process is left in them. */
export function openNetwork(count: number): Network {
  const prefix = `10.214.${process.pid % 250}`;
  const bridge = `c${process.pid}b`;
  const address = (last: number): string => `${prefix}.${last}`;
  const made: (readonly string[])[] = [];
  const dispose = (): void => {
    for (const what of made.splice(0).toReversed()) run('ip', ...what);
  };
  const hosts: { readonly wrapper: readonly string[]; readonly address: string }[] = [];
  try {
    run('ip', 'link', 'add', bridge, 'type', 'bridge');
    made.push(['link', 'del', bridge]);
    for (const last of [2, 3, 4]) run('ip', 'addr', 'add', `${address(last)}/24`, 'dev', bridge);
    run('ip', 'link', 'set', bridge, 'up');
    for (let index = 0; index < count; index += 1) {
      const [name, device] = [`sync-${process.pid}-${index}`, `c${process.pid}h${index}`];
      run('ip', 'netns', 'add', name);
      made.push(['netns', 'del', name]);
      run('ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
      run('ip', 'link', 'set', device, 'master', bridge, 'up');
      run('ip', '-n', name, 'addr', 'add', `${address(11 + index)}/24`, 'dev', 'eth0');
      run('ip', '-n', name, 'link', 'set', 'eth0', 'up');
      run('ip', '-n', name, 'link', 'set', 'lo', 'up');
      hosts.push({ wrapper: ['ip', 'netns', 'exec', name], address: address(11 + index) });
    }
  } catch (error) {
    dispose();
    throw error;
  }
  return {
    addresses: { redis: address(2), postgres: address(3), service: address(4) },
    subnet: `${prefix}.0/24`,
    hosts,
    [Symbol.dispose]: dispose,
  };
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
