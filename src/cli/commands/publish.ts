import type { AskedPublication } from '../../app/publish-target.ts';
import type { PublishEnd } from '../../publish/publish-once.ts';
import { formatDuration } from '../../settings/parse-unit.ts';
import type { PublishSettings } from '../../settings/settings.ts';
import { command, type CommandContext, durationOf } from '../command.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import {
  ofEachTarget,
  publishCheck,
  publishPrune,
  publishStatus,
  stopping,
  targets,
} from './publish/inspect-targets.ts';
import { publishSchema } from './publish/schema.ts';
import { showPublication, staleEntities, staleText } from './publish/show-publication.ts';

const help = `
A publication is atomic, and holds what changed since the one before, deletes included. It reads what
is stored: no API is asked.

Examples:
  $ connector-sync publish                            into every target of the config
  $ connector-sync publish lake --require-fresh 24h   code 3 while an entity was not read completely for a day
  $ connector-sync publish lake --new-generation      all rows again; what was published before no longer counts
  $ connector-sync publish status                     what each target holds; of a named one each entity
  $ connector-sync publish check lake                 read it back: files, hashes, rows, numbers
  $ connector-sync publish prune --dry-run            what is older than "keep" of the config

Exit codes: 0 published, or nothing was new; 2 refused: the config is wrong, or the target is ahead of the sink
or belongs to something else; 3 not as fresh as --require-fresh asks; 1 failed, and nothing was published.`;

export const publish = command({
  argument: targets,
  options: {
    '--new-generation': 'publish all rows again: what was published before no longer counts',
    '--require-fresh <duration>': 'exit code 3 if an entity was last read completely longer ago: 24h',
  },
  help,
  enter: () => ({ stopping }),
  run: async (context, { newGeneration, requireFresh }, names) => {
    const withinMs = requireFresh === undefined ? null : durationOf('--require-fresh', requireFresh);
    const asked = { isSnapshotAsked: false, isNewGenerationAsked: newGeneration };
    return await runPublish(context, names, asked, withinMs);
  },
  commands: {
    status: publishStatus,
    check: publishCheck,
    snapshot: command({
      description: 'Publish with all rows besides the changes, for readers that start from nothing.',
      argument: targets,
      enter: () => ({ stopping }),
      run: async (context, _flags, names) => await runPublish(context, names, snapshot, null),
    }),
    prune: publishPrune,
    schema: publishSchema,
  },
});

const snapshot = { isSnapshotAsked: true, isNewGenerationAsked: false };

async function runPublish(
  context: CommandContext,
  names: readonly string[],
  asked: AskedPublication,
  withinMs: number | null,
): Promise<ExitCode> {
  return await ofEachTarget(context, names, async (target, settings) => {
    if (asked.isSnapshotAsked && !('layout' in target)) {
      context.terminal.note(`${target.name}: tables need no snapshot, because they show all rows`);
    }
    const end = await showPublication(context, settings, target, asked);
    const isClean = (end.cleaned?.problem ?? null) === null;
    const code = withinMs === null ? exitCodes.ok : tellFreshness(context, target, end, withinMs);
    return isClean ? code : exitCodes.degraded;
  });
}

/** What is published is published, fresh or not: the code keeps a report from being made of it. */
function tellFreshness(
  { terminal, clock }: CommandContext,
  target: PublishSettings,
  end: PublishEnd,
  withinMs: number,
): ExitCode {
  if (end.kind === 'nothing-stored') return exitCodes.degraded;
  const { manifest } = end.kind === 'published' ? end.published : end.newest;
  const stale = staleEntities(manifest, target, withinMs, clock.now());
  if (stale.length === 0) return exitCodes.ok;
  const { name } = target;
  terminal.printJson({ kind: 'not-fresh', target: name, withinMs, entities: stale });
  const shown = stale.slice(0, mostNamed).map((entity) => staleText(entity, clock.now()));
  const more = stale.length > mostNamed ? ` and ${stale.length - mostNamed} more` : '';
  terminal.note(`${name}: older than ${formatDuration(withinMs)}: ${shown.join(', ')}${more}`);
  return exitCodes.degraded;
}

const mostNamed = 10;
