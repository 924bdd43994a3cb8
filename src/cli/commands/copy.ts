import {
  connectorsHeld,
  copyConnector,
  undoCopy,
  type CopyEnd,
  type CopyRequest,
} from '../../app/copy-connector.ts';
import { usage } from '../../core/errors.ts';
import { chosenConnectors, sinkNamed } from '../../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../../settings/settings.ts';
import { count, counted, duration } from '../../telemetry/format.ts';
import { showLive } from '../../telemetry/progress.ts';
import { command, type CommandContext } from '../command.ts';
import { forEachOf } from '../output/exit-codes.ts';

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
Nothing is read from the API, and what is stored in the sink --from stays. Each table is read back and compared.
Afterwards, set "sink:" of the connector in the config: the next sync continues from there. Interrupted or killed, run
the same command again: it resumes with the table it was at.
Until it is complete, what is in --to cannot be synced or exported. Once it is, --from takes no more syncs of it.

Exit codes: 0 copied, or copied before; 2 refused, 5 a run has the connector; 130 interrupted.

Examples:
  $ connector-sync copy --from warehouse --to pg newsletter
  $ connector-sync copy --from warehouse --to pg            every connector whose sink is warehouse
  $ connector-sync copy --to pg --discard newsletter        removes an unfinished copy
  $ connector-sync copy --from warehouse --reopen newsletter syncs continue in warehouse`,
  run: async (context, flags, names) => {
    const settings = await context.settings();
    const sinkOf = (flag: 'from' | 'to'): SinkSettings => sinkNamed(settings, `--${flag}`, flags[flag]);
    if (flags.reopen || flags.discard) {
      const how = flags.reopen ? 'reopen' : 'discard';
      const sink = sinkOf(flags.reopen ? 'from' : 'to');
      if (names.length === 0) throw usage(`--${how}: name the connectors.`);
      return await forEachOf(context, chosenConnectors(settings, names), marksOf, async ({ name }) => {
        const isDone = await undoCopy(how, sink, name, context.clock);
        const kind = flags.reopen ? 'copy-reopened' : 'copy-discarded';
        context.terminal.printJson({ kind, connector: name, sink: sink.name, isDone });
        const { done, nothing } = undoTexts[how];
        context.terminal.print(`${name}: ${sink.name} ${isDone ? done : `${nothing}; nothing was changed`}.`);
      });
    }
    const to = sinkOf('to');
    const from = sinkOf('from');
    const connectors =
      names.length > 0 ? chosenConnectors(settings, names) : await connectorsHeld(settings, from);
    const copies: EndedCopy[] = [];
    const code = await forEachOf(context, connectors, marksOf, async (connector) => {
      const end = await copyShown(context, { connector: connector.name, from, to });
      const copy = { connector, end, from, to, program: context.program };
      copies.push(copy);
      context.terminal.printJson({
        kind: 'copy',
        from: from.name,
        to: to.name,
        ...end,
        sinkInConfig: connector.sink.name,
        downloads: connector.downloads?.directory ?? null,
      });
      context.terminal.print(...copiedText(copy));
    });
    context.terminal.print(...copyEndText(copies));
    return code;
  },
});

const undoTexts = {
  reopen: {
    done: 'takes syncs of it again. Do not sync it in the sink that it was copied into as well',
    nothing: 'takes syncs of it already',
  },
  discard: { done: 'has nothing left of the unfinished copy', nothing: 'has no unfinished copy of it' },
};

/** Copies, and shows the progress. */
async function copyShown(
  { terminal, clock, signal }: CommandContext,
  request: Pick<CopyRequest, 'connector' | 'from' | 'to'>,
): Promise<CopyEnd> {
  const startedMs = clock.now();
  let newest: string | null = null;
  await using _live = showLive(terminal, clock, () =>
    newest === null ? [] : [`${request.connector}  ${duration(clock.now() - startedMs)}  ${newest}`],
  );
  return await copyConnector({
    ...request,
    clock,
    signal,
    onProgress: ({ entity, rows, allRows }) => {
      const what = entity === null ? 'the sync state' : `rows of ${entity}`;
      newest = `${count(rows)} of ${count(allRows)} rows copied, now ${what}`;
    },
  });
}

const marksOf = (connector: string) => ({ kind: 'copy-error', connector });

export interface EndedCopy {
  readonly connector: ConnectorSettings;
  readonly end: CopyEnd;
  readonly from: SinkSettings;
  readonly to: SinkSettings;
  readonly program: string;
}

/** Describes the copy of one connector. */
export function copiedText({ connector, end, from, to, program }: EndedCopy): readonly string[] {
  const { downloads, name } = connector;
  const { state, rows, deleted, entities, newestSeq, withoutVersions, isPaused } = end;
  const how = state === 'done' ? 'was copied before' : 'copied';
  const what = `${counted(rows, 'row')} of ${counted(entities, 'table')}, ${count(deleted)} of them deleted`;
  return [
    `${name}: ${how} from ${from.name} to ${to.name}: ${what}, up to change number ${newestSeq}, and the sync state; each table was read back and compared`,
    ...(downloads === null
      ? []
      : [
          `  Files stay in ${downloads.directory}, which every machine that syncs it must see: they are not copied, and not fetched again.`,
        ]),
    ...(withoutVersions.length === 0
      ? []
      : [
          `  ! Earlier versions of rows (history) of ${withoutVersions.join(', ')} are not in ${to.name}: there each later change is a line, and earlier ones are in ${from.name} alone.`,
        ]),
    ...(isPaused ? [`  It is paused in ${to.name} too. To resume: ${program} schedule resume ${name}`] : []),
  ];
}

/** Describes the result that all copied connectors share, and the next steps; empty where none was copied. */
export function copyEndText(copies: readonly EndedCopy[]): readonly string[] {
  const [first] = copies;
  if (first === undefined) return [];
  const { from, to, program, end } = first;
  const names = copies.map(({ connector }) => connector.name);
  return [
    `Change numbers (_seq) are the same in ${to.name}: consumers continue with the number they have, and see a new sink id (${end.toSink}).`,
    `Next: set "sink: ${to.name}" for ${names.join(', ')} in the config, and restart the workers. Until then syncs are refused (exit code 2).`,
    `What is in ${from.name} stays as it was, and is not synced there again. To continue there instead: ${program} copy --from ${from.name} --reopen ${names.join(' ')}`,
  ];
}
