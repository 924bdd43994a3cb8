import {
  connectorsHeld,
  copyConnector,
  undoCopy,
  type CopyEnd,
  type CopyProgress,
  type CopyRequest,
} from '../../app/copy-connector.ts';
import { usage } from '../../core/usage-error.ts';
import { isSharedSink } from '../../settings/build-sinks.ts';
import { chosenConnectors, sinkNamed } from '../../settings/chosen-connectors.ts';
import type { ConnectorSettings, SinkSettings } from '../../settings/settings.ts';
import { count, counted, duration } from '../../telemetry/format.ts';
import { showLive } from '../../telemetry/show-progress.ts';
import { command, type CommandContext } from '../command.ts';
import { type ExitCode, exitCodes, gravestExitCode, reportFailureOf } from '../output/exit-codes.ts';

export const copy = command({
  argument: [
    '[connector...]',
    'names from the config, * stands for any text (default: all whose sink is --from)',
  ],
  options: {
    '--from <sink>': 'the sink of the config that holds them now',
    '--to <sink>': 'the sink of the config that they go into',
    '--discard': 'remove what an unfinished copy has stored in --to, and copy nothing',
    '--reopen': 'let syncs write to --from again after a copy, and copy nothing',
  },
  help: `
Copies the records, deleted ones included, and all that is known of them: progress, runs, missing rows, change numbers.
Nothing is read from the API, and what is stored in the sink --from stays. Afterwards, set "sink:" of the connector in
the config: the next sync continues from there. Interrupted or killed, run the same command again: it resumes.
Until it is complete, what is in --to cannot be synced or exported. Once it is, --from takes no more syncs of it.

Exit codes: 0 copied, or copied before; 2 refused, 5 a run has the connector; 130 interrupted.

Examples:
  $ connector-sync copy --from warehouse --to pg newsletter
  $ connector-sync copy --from warehouse --to pg            every connector whose sink is warehouse
  $ connector-sync copy --to pg --discard newsletter        removes an unfinished copy
  $ connector-sync copy --from warehouse --reopen newsletter syncs continue in warehouse`,
  run: async (context, flags, names) => {
    const { terminal, clock, program } = context;
    const settings = await context.settings();
    const named = (message: string): readonly ConnectorSettings[] => {
      if (names.length === 0) throw usage(message);
      return chosenConnectors(settings, names);
    };
    if (flags.reopen) {
      const from = sinkNamed(settings, '--from', flags.from);
      const connectors = named('--reopen: name the connectors that continue in --from.');
      return await forEach(context, connectors, async ({ name }) => {
        const isReopened = await undoCopy('reopen', from, name, clock);
        terminal.printJson({ kind: 'copy-reopened', connector: name, from: from.name, isReopened });
        const done = `${from.name} takes syncs of it again. Do not sync it in the sink that it was copied into as well.`;
        const nothing = `it was not copied away from ${from.name}; nothing was changed.`;
        terminal.print(`${name}: ${isReopened ? done : nothing}`);
      });
    }
    const to = sinkNamed(settings, '--to', flags.to);
    if (flags.discard) {
      const connectors = named('--discard: name the connectors whose unfinished copies are to be removed.');
      return await forEach(context, connectors, async ({ name }) => {
        const isDiscarded = await undoCopy('discard', to, name, clock);
        terminal.printJson({ kind: 'copy-discarded', connector: name, to: to.name, isDiscarded });
        const done = `the unfinished copy was removed from ${to.name}.`;
        const nothing = `${to.name} has no unfinished copy of it; nothing was changed.`;
        terminal.print(`${name}: ${isDiscarded ? done : nothing}`);
      });
    }
    const from = sinkNamed(settings, '--from', flags.from);
    const connectors =
      names.length > 0 ? chosenConnectors(settings, names) : await connectorsHeld(settings, from);
    const copies: EndedCopy[] = [];
    const code = await forEach(context, connectors, async (connector) => {
      const end = await copyShown(context, { connector: connector.name, from, to });
      const copy = { connector, end, from, to, program };
      showCopied(context, copy);
      copies.push(copy);
    });
    terminal.print(...copyEndText(copies));
    return code;
  },
});

/** Shows how far the copy is. */
async function copyShown(
  { terminal, clock, signal }: CommandContext,
  request: Pick<CopyRequest, 'connector' | 'from' | 'to'>,
): Promise<CopyEnd> {
  const startedMs = clock.now();
  let newest: CopyProgress | null = null;
  const line = (): string | null => {
    if (newest === null) return null;
    const { entity, rows, allRows } = newest;
    const what = entity === null ? 'the sync state' : `rows of ${entity}`;
    const done = `${count(rows)} of ${count(allRows)} rows copied`;
    return `${request.connector}  ${duration(clock.now() - startedMs)}  ${done}, now ${what}`;
  };
  await using _live = showLive(terminal, clock, { line });
  const onProgress = (progress: CopyProgress): void => void (newest = progress);
  return await copyConnector({ ...request, clock, signal, onProgress });
}

function showCopied({ terminal }: CommandContext, copy: EndedCopy): void {
  const { connector, end, from, to } = copy;
  const { connector: _name, ...facts } = end;
  terminal.printJson({
    kind: 'copy',
    connector: connector.name,
    from: from.name,
    to: to.name,
    ...facts,
    keepsChangeNumbers: true,
    sinkInConfig: connector.sink.name,
    downloads: connector.downloads?.directory ?? null,
  });
  terminal.print(...copiedText(copy));
}

/** One after the other; one that fails does not keep the others from theirs. */
async function forEach(
  { terminal, signal }: CommandContext,
  connectors: readonly ConnectorSettings[],
  work: (connector: ConnectorSettings) => Promise<void>,
): Promise<ExitCode> {
  const codes: ExitCode[] = [];
  for (const connector of connectors) {
    try {
      await work(connector);
    } catch (error) {
      const { name } = connector;
      if (signal.aborted) {
        terminal.note(`${name}: interrupted; what is copied stays. Run the same command again to resume.`);
        return gravestExitCode([...codes, exitCodes.interrupted]);
      }
      codes.push(reportFailureOf({ terminal }, name, error, { kind: 'copy-error', connector: name }));
    }
  }
  if (connectors.length > 1 && codes.length > 0) {
    terminal.note(`${counted(codes.length, 'connector')} of ${connectors.length} failed.`);
  }
  return gravestExitCode(codes);
}

export interface EndedCopy {
  readonly connector: ConnectorSettings;
  readonly end: CopyEnd;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly program: string;
}

/** What the copy of one connector has done. */
export function copiedText({ connector, end, from, to, program }: EndedCopy): readonly string[] {
  return [
    headline(end, from, to),
    ...filesText(connector, end, to),
    ...(end.withoutVersions.length === 0
      ? []
      : [
          `  ! Earlier versions of rows (history) of ${end.withoutVersions.join(', ')} are not in ${to.name}: there each later change is a line, and earlier ones are in ${from.name} alone.`,
        ]),
    ...(end.isPaused
      ? [`  It is paused in ${to.name} too. To resume: ${program} schedule resume ${connector.name}`]
      : []),
  ];
}

/** What holds for all connectors that were copied, and what a person does next; empty where none was. */
export function copyEndText(copies: readonly EndedCopy[]): readonly string[] {
  const [first] = copies;
  if (first === undefined) return [];
  const { from, to, program, end } = first;
  const namesOf = (some: readonly EndedCopy[], between: string): string =>
    some.map(({ connector }) => connector.name).join(between);
  const used = copies.filter(({ connector }) => connector.sink.name === to.name);
  const unused = copies.filter((copy) => !used.includes(copy));
  return [
    `Change numbers (_seq) are the same in ${to.name}: consumers continue with the number they have, and see a new sink id (${end.toSink}).`,
    ...(used.length === 0 ? [] : [`Next: ${program} sync ${namesOf(used, ' ')}`]),
    ...(unused.length === 0
      ? []
      : [
          `Next: set "sink: ${to.name}" for ${namesOf(unused, ', ')} in the config, and restart the workers.`,
          'Until then syncs are refused (exit code 2).',
        ]),
    `What is in ${from.name} stays as it was, and is not synced there again. To continue there instead: ${program} copy --from ${from.name} --reopen ${namesOf(copies, ' ')}`,
  ];
}

function headline(
  { connector, state, rows, deleted, entities, newestSeq }: CopyEnd,
  from: SinkSettings,
  to: SinkSettings,
): string {
  const what = `${counted(rows, 'row')} of ${counted(entities, 'table')}${deleted === 0 ? '' : `, ${count(deleted)} of them deleted`}`;
  if (state === 'done') {
    return `${connector}: was copied from ${from.name} to ${to.name} before, and ${from.name} has not changed since (${what})`;
  }
  return `${connector}: copied from ${from.name} to ${to.name}${state === 'resumed' ? ' (resumed)' : ''}: ${what}, up to change number ${newestSeq}, and the sync state`;
}

/** Files lie in a folder of the config, whatever the sink is. */
function filesText(
  { downloads }: ConnectorSettings,
  { files }: CopyEnd,
  to: SinkSettings,
): readonly string[] {
  if (downloads === null && files === 0) return [];
  const where =
    downloads === null ? 'the folder that "downloads" named when they were fetched' : downloads.directory;
  const stay = `  ${counted(files, 'file')} stay in ${where}: they are not copied, and not fetched again.`;
  if (downloads === null || !isSharedSink(to.type)) return [stay];
  return [
    stay,
    `  Every machine that syncs it must see that folder: sink ${to.name} requires "shared: true" under "downloads".`,
  ];
}
