import { setFlagsFromString } from 'node:v8';
import type { WorkerConfig } from '../../app/start-scheduled-runs.ts';
import { type ErrorCode, SyncError, usage } from '../../core/errors.ts';
import { type ListenAddress, parseListenAddress } from '../../monitor/listen-address.ts';
import { connectorsMatching } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { printable } from '../../telemetry/format.ts';
import type { Log } from '../../telemetry/log.ts';
import { aborted, command, type CommandContext, type FlagsOf, wholeNumber } from '../command.ts';
import { stderrLog } from '../environment.ts';
import { registerSecrets } from '../load-config.ts';
import { errorDocument, exitCodeOfError, exitCodes } from '../output/exit-codes.ts';

const mostRuns = 64;
const mostRunsOfAll = 1000;
/** Mistakes in the config or on the command line; all other errors may occur unattended. */
const forPeople: ReadonlySet<ErrorCode> = new Set(['USAGE', 'CONFIG_INVALID', 'DEFINITION_INVALID'] as const);

const help = `
Redis is where redis.url of the config says, else at redis://127.0.0.1:6379. Several workers may share it, each on a
machine that has the sink files of its connectors. SIGTERM or Ctrl-C: runs finish their page and go back to the queue,
exit code 0 within 25 s; a second one quits now. Log lines are text on a terminal, else JSON (--log); LOG_LEVEL=debug
shows every page.

It reads the config again on SIGHUP, on "connector-sync reload", and with "watch: true" in the config whenever a file of it
changes. New connectors get their schedules within seconds; removed ones stop after their page; changed ones begin their
next run with it; other runs continue. A config with mistakes is refused, and the one before stays in force.

--http serves the pages of "connector-sync ui", /healthz, /readyz and /metrics (Prometheus), and the queues at /board
where the config has http.token or http.tokens. From other machines the pages need one too.

Examples:
  $ connector-sync worker
  $ connector-sync worker --http 9400                      on this machine alone
  $ connector-sync worker --http :9400 --concurrency 4     in a container
  $ connector-sync worker --connectors 'news*' wiki        only these; another worker runs the others`;

const options = {
  '--connectors <glob...>': 'run only connectors that match',
  '--concurrency <n>': { text: 'runs at a time for each sink', default: '2' },
  '--max-runs <n>': 'runs at a time over all sinks: bounds the memory (default: 32)',
  '--http <[host]:port>': 'serve health checks and metrics there; a bare port binds to loopback',
} as const;

export const worker = command({
  options,
  help: help,
  enter: () => ({ isLogged: true }),
  run: async (context, flags) => {
    const log = await stderrLog(context, 'info');
    try {
      await workUntilStopped(context, flags, log);
      // A worker runs until it is stopped.
      return exitCodes.ok;
    } catch (error) {
      if (error instanceof SyncError && forPeople.has(error.code)) throw error;
      // Written to the log, because a collector of logs reads JSON lines.
      const document = errorDocument(error);
      context.terminal.printJson({ error: document });
      log.fatal({ err: error }, document.message);
      return exitCodeOfError(error);
    }
  },
});

async function workUntilStopped(context: CommandContext, flags: FlagsOf<typeof options>, log: Log) {
  const { clock, signal, program } = context;
  const concurrency = wholeNumber('--concurrency', flags.concurrency, mostRuns, 1);
  const maxRuns =
    flags.maxRuns === undefined
      ? {}
      : { maxRuns: wholeNumber('--max-runs', flags.maxRuns, mostRunsOfAll, 1) };
  const listen = listenAddressOf(flags.http);
  const pages = listen === null ? null : await import('../../page/page-routes.ts');
  const deeds = pages?.openFollowedActs();
  const editing = {
    env: context.env,
    hide: (changed: LocalSettings) => registerSecrets(changed, context.scrubber),
    reload: async () => await runs.reload(),
    isWorker: true,
  };
  const read = async (): Promise<WorkerConfig> => {
    const settings = await context.settings('access', 'redis', 'http');
    const served = connectorsMatching(settings, flags.connectors);
    const unscheduled = served.flatMap(({ name, schedule }) => (schedule === null ? [name] : []));
    if (unscheduled.length > 0) {
      log.warn({ connectors: unscheduled }, 'these connectors have no schedule: they run only on request');
    }
    const names = new Set(served.map(({ name }) => name));
    return {
      settings,
      serves: (name) => names.has(name),
      ...(pages === null ? {} : { pages: pages.servedPages({ settings, program, clock, deeds, editing }) }),
    };
  };
  const first = await read();
  // By default V8 lets garbage grow to three times the used memory: 620 MiB instead of 450 with 32 runs at a time.
  setFlagsFromString('--heap-growing-percent=50');
  // Loaded on demand: no other command needs all of it, and it would double their start.
  const { followConfig } = await import('../../app/start-scheduled-runs.ts');
  const stopping = new AbortController();
  const runs = await followConfig({
    ...first,
    read,
    signal: stopping.signal,
    log,
    clock,
    command: 'connector-sync worker',
    concurrency,
    ...maxRuns,
    listen,
  });
  const onHangUp = (): void => void runs.reload();
  process.on('SIGHUP', onHangUp);
  try {
    await aborted(signal);
  } finally {
    process.off('SIGHUP', onHangUp);
    stopping.abort();
    await runs.stop();
    log.info({}, 'worker stopped');
  }
}

function listenAddressOf(http: string | undefined): ListenAddress | null {
  if (http === undefined) return null;
  try {
    return parseListenAddress(http);
  } catch (error) {
    throw error instanceof SyncError ? usage(`--http: ${error.message}`) : error;
  }
}

export const reload = command({
  help: `
Each worker reads its own config file again. One with mistakes is refused, and the config before stays in force. New
connectors get their schedules within seconds; removed ones stop after their page; changed ones begin their next run with
it; other runs continue. A worker also does so on SIGHUP, and by itself where the config has "watch: true".

Exit codes: 0 every worker has the config; 1 one refused it, or did not answer within 20 s.`,
  run: async (context) => {
    const { terminal, signal, program } = context;
    // Loaded on demand: a started worker needs no sinks for it.
    const { openQueuesOf } = await import('../../app/reach-queues.ts');
    await using queues = await openQueuesOf(await context.settings('redis'));
    const { workers, answers, silent } = await queues.reload(signal);
    if (workers === 0) {
      throw usage(
        `No worker runs on this Redis. Start one with "${program} worker": it reads the config then.`,
      );
    }
    terminal.printJson({ answers, silent });
    for (const { worker, config, outcome, text } of answers) {
      terminal.print(`${printable(worker)}: ${outcome} (${printable(config)}): ${printable(text)}`);
    }
    if (silent > 0) terminal.print(`${silent} of ${workers} workers did not answer; their logs say why.`);
    const isDone = silent === 0 && answers.every(({ outcome }) => outcome !== 'refused');
    return isDone ? exitCodes.ok : exitCodes.failed;
  },
});
