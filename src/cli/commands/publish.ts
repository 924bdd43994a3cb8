import path from 'node:path';
import {
  type AskedPublication,
  ordinaryPublication,
  targetStatus,
  targetWork,
  withTarget,
} from '../../app/publish-target.ts';
import { usage } from '../../core/errors.ts';
import { firstNames } from '../../definitions/suggest-name.ts';
import type { PublishedEntity } from '../../publish/manifest.ts';
import { heldBackTexts, type PublishEnd } from '../../publish/publication.ts';
import { catalogueOf, readPublished, dialectNames, generate } from '../../publish/published-schema.ts';
import type { PrunedTarget } from '../../publish/target.ts';
import { chosenConnectors, chosenTargets, isStillPublished, targetNamed } from '../../settings/choices.ts';
import type { LocalSettings, PublishSettings } from '../../settings/settings.ts';
import { checkTargets } from '../../settings/load-settings.ts';
import { formatDuration } from '../../settings/texts.ts';
import { count, counted, longAgo, printable, sizeText, toTheMinute } from '../../telemetry/format.ts';
import { unfinishedPurgeText } from '../../app/connector-states.ts';
import { command, type CommandContext, durationOf } from '../command.ts';
import { errorDocument, type ExitCode, exitCodeOfError, exitCodes, forEachOf } from '../output/exit-codes.ts';
import { picked } from '../output/json-text.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';
import { showPublication, staleEntities, staleText } from './publish/show-publication.ts';
import { generatedText, writeGenerated, type WrittenFile } from './publish/write-generated.ts';

export const stopping = 'Stopping: what is not published yet stays out. Ctrl-C again quits now.';

export const targets = ['[target...]', 'names from the config (default: all)'] as const;

/** Shows the content of each target, and whether the sink has newer data; for named targets each entity. */
const publishStatus = command({
  description: 'Show what each target holds, and whether something newer is stored.',
  argument: targets,
  run: async (context, _flags, names) => {
    const { terminal, clock } = context;
    return await ofEachTarget(context, names, async (target) => {
      const { newest, isUpToDate, newGeneration, heldBack, refusal } = await targetStatus(target, context);
      const work = await targetWork(target);
      const unfinished = work.length === 0 ? [] : [unfinishedPurgeText(work, context.program)];
      const code = refusal === null ? exitCodes.ok : exitCodeOfError(refusal);
      const manifest = newest?.manifest ?? null;
      terminal.printJson({
        kind: 'target',
        target: target.name,
        type: target.type,
        when: target.when,
        publication: manifest?.publication ?? null,
        createdAt: manifest?.createdAt ?? null,
        sha256: newest?.sha256 ?? null,
        isUpToDate,
        newGeneration,
        heldBack,
        unfinishedPurges: work,
        error: refusal === null ? null : errorDocument(refusal),
        entities: (manifest?.entities ?? []).map((one) => ({
          ...picked(one, 'connector', 'entity', 'generation', 'schema', 'base', 'through', 'asOf'),
          isInConfig: isStillPublished(target, one),
        })),
      });
      const when =
        target.when.kind === 'every' ? `every ${formatDuration(target.when.everyMs)}` : target.when.kind;
      if (manifest === null) {
        terminal.print(`${target.name} (${target.type}, ${when}): nothing was published yet`);
        terminal.print(...unfinished.map((line) => `  ! ${line}`));
        return exitCodes.ok;
      }
      const { publication, createdAt, entities } = manifest;
      const isPlain = refusal === null && newGeneration === null;
      const state = isUpToDate ? ', up to date' : isPlain ? ', something newer is stored' : '';
      terminal.print(
        `${target.name} (${target.type}, ${when}): publication ${publication} of ${longAgo(createdAt, clock.now())}${state}`,
      );
      if (refusal !== null) terminal.print(`  ! ${printable(refusal.message)}`);
      if (newGeneration !== null) {
        terminal.print(`  ! The next publication has all rows again, because ${newGeneration}`);
      }
      for (const line of [...unfinished, ...heldBackTexts(heldBack)]) terminal.print(`  ! ${line}`);
      terminal.print(`  ${completeness(target, entities, clock.now())}`);
      if (names.length === 0) return code;
      const rows = entities.map(({ connector, entity, generation, base, through, asOf }) => [
        `${connector}/${entity}`,
        String(generation),
        String(base),
        String(through),
        !isStillPublished(target, { connector, entity })
          ? 'no longer in the config'
          : asOf === null
            ? 'never'
            : toTheMinute(asOf),
      ]);
      terminal.print(...indentedTable(statusColumns, rows));
      return code;
    });
  },
});

/** How many entities a publication has, and how old they are. */
function completeness(target: PublishSettings, entities: readonly PublishedEntity[], now: number): string {
  const followed = entities.filter((one) => isStillPublished(target, one));
  const known = followed.flatMap(({ asOf }) => (asOf === null ? [] : [asOf])).toSorted();
  const [oldest] = known;
  const never = followed.length - known.length;
  const left = entities.length - followed.length;
  const parts = [
    counted(entities.length, 'entity', 'entities'),
    oldest !== undefined &&
      `${never === 0 ? '' : `${count(known.length)} of them `}complete as of ${longAgo(oldest, now)} or later`,
    never > 0 && `${count(never)} never read completely`,
    left > 0 && `${count(left)} no longer in the config`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}

const statusColumns = [
  ...leftColumns('entity'),
  ...rightColumns('generation', 'read from', 'through _seq'),
  ...leftColumns('complete as of'),
];

/** Reads each target back and compares it. */
const publishCheck = command({
  description:
    'Read targets back: every file with its hash and rows, no gap in the numbers. Changes nothing.',
  argument: targets,
  enter: () => ({ stopping }),
  run: async (context, _flags, names) => {
    const { terminal, program } = context;
    return await ofEachTarget(context, names, async (target) => {
      const { name } = target;
      const check = await withTarget(target, context, (opened) => opened.check(context.signal));
      const { publications, files, rows, bytes, problems } = check;
      terminal.printJson({ kind: 'target-check', target: name, ...check });
      const parts = [
        counted(publications, 'publication'),
        ...(files === 0 ? [] : [counted(files, 'file'), sizeText(bytes)]),
        counted(rows, 'row'),
      ];
      if (publications === 0 && problems.length === 0) {
        terminal.print(`${name}: nothing was published yet`);
        return exitCodes.ok;
      }
      terminal.print(
        `${name}: ${parts.join(', ')}: ${problems.length === 0 ? 'all as published' : counted(problems.length, 'problem')}`,
      );
      const more = problems.length - mostProblems;
      for (const problem of problems.slice(0, mostProblems)) terminal.print(`  ! ${printable(problem)}`);
      if (more > 0) terminal.print(`  ! and ${count(more)} more`);
      if (problems.length > 0) {
        terminal.note(
          `  Restore what is wrong from a backup, or publish all rows again: "${program} publish ${name} --new-generation".` +
            (files === 0
              ? ''
              : ' Earlier publications stay as they are: what they lack is reported as long as they are kept.'),
        );
      }
      return problems.length === 0 ? exitCodes.ok : exitCodes.failed;
    });
  },
});

const mostProblems = 20;

/** Removes files that need not be kept, or lists them. Completes an unfinished purge instead, if there is one. */
const publishPrune = command({
  description:
    'Remove publications older than "keep" of the config, and leftovers of killed publishers; finish purges.',
  argument: targets,
  options: { '--dry-run': 'say what would be removed, remove nothing' },
  enter: () => ({ stopping }),
  run: async (context, { dryRun: isDryRun }, names) => {
    const { terminal, clock } = context;
    return await ofEachTarget(context, names, async (target, settings) => {
      const { name, keepMs } = target;
      if ((await targetWork(target)).length > 0 && !isDryRun) {
        const { cleaned } = await showPublication(context, settings, target, ordinaryPublication);
        return (cleaned?.problem ?? null) === null ? exitCodes.ok : exitCodes.degraded;
      }
      const keepFromMs = keepMs === null ? null : clock.now() - keepMs;
      const pruned = await withTarget(target, context, (opened) => opened.prune(keepFromMs, isDryRun));
      terminal.printJson({ kind: 'target-pruned', target: name, isDryRun, ...pruned });
      terminal.print(`${name}: ${prunedText(pruned, isDryRun, keepMs)}`);
      return exitCodes.ok;
    });
  },
});

function prunedText(
  { publications, files, bytes, waiting }: PrunedTarget,
  isDryRun: boolean,
  keepMs: number | null,
): string {
  const because = keepMs === null ? ' (its settings keep every publication)' : '';
  // Killed publishers left these files, or a running one has just written them.
  const young =
    waiting.files === 0 ? '' : `; ${counted(waiting.files, 'file')} of no publication are younger than a day`;
  if (publications + files === 0) return `nothing to remove${because}${young}`;
  const what = `${counted(publications, 'publication')}${because}, ${counted(files, 'file')}, ${sizeText(bytes)}`;
  return `${isDryRun ? 'would remove' : 'removed'} ${what}${young}`;
}

/** Works on each target; a failed one does not stop the others. */
async function ofEachTarget(
  context: CommandContext,
  names: readonly string[],
  work: (target: PublishSettings, settings: LocalSettings) => Promise<ExitCode>,
): Promise<ExitCode> {
  const settings = await context.settings();
  const marksOf = (target: string) => ({ kind: 'publication-error', target });
  return await forEachOf(context, chosenTargets(settings, names), marksOf, async (target) => {
    checkTargets(settings, [target]);
    return await work(target, settings);
  });
}

const publishSchema = command({
  description: 'Write dbt sources, or statements that make and load tables, for what a target holds.',
  argument: ['[target]', 'a name below "publish:" in the config; may be left out where there is one'],
  options: {
    '--dialect <name>': { text: dialectNames.join(', '), isRequired: true },
    '--output <folder>': 'write files there; needed for dbt',
  },
  help: `
Names, columns and files are those of the newest publication, or of the connector types where nothing is published. The files
are meant to be committed: your umask decides who can read them. A file that was edited is left alone.

Examples:
  $ connector-sync publish schema --dialect dbt --output ./analytics
  $ connector-sync publish schema --dialect duckdb lake | duckdb lake.duckdb`,
  run: async (context, { dialect, output }, name) => {
    if (!dialectNames.includes(dialect)) {
      throw usage(`--dialect: expected one of ${dialectNames.join(', ')}, got "${dialect}".`);
    }
    if (dialect === 'dbt' && output === undefined) {
      throw usage(
        '--dialect dbt makes a file for each connector: name the folder of the dbt project with --output.',
      );
    }
    const settings = await context.settings();
    const target = targetOf(settings, name);
    const published = target === null ? null : await withTarget(target, context, readPublished);
    const catalogue = catalogueOf(target?.connectors ?? chosenConnectors(settings, []), target, published);
    const files = generate(catalogue, dialect);
    const head = { dialect, target: target?.name ?? null, publication: catalogue.publication };
    if (output === undefined) {
      const texts = files.map((file) => ({ path: file.path, text: generatedText(file) }));
      context.terminal.printJson({ ...head, files: texts });
      if (!context.terminal.isJson) {
        await context.terminal.printRecords(texts.map(({ text }) => text).join('\n'));
      }
      return;
    }
    const folder = path.resolve(context.cwd, output);
    const written = writeGenerated(folder, files);
    tell(context, folder, written);
    context.terminal.printJson({ ...head, folder, files: written });
  },
});

/** Null where the config has none. Throws USAGE with the known names. */
function targetOf(settings: LocalSettings, name: string | undefined): PublishSettings | null {
  const [only = null, ...others] = settings.publish.values();
  if (name === undefined && others.length > 0) {
    throw usage(
      `Expected one of the targets ${[...settings.publish.keys()].join(', ')}: the config has several.`,
    );
  }
  const target = name === undefined ? only : targetNamed(settings, name);
  if (target !== null) checkTargets(settings, [target]);
  return target;
}

function tell({ terminal }: CommandContext, folder: string, files: readonly WrittenFile[]): void {
  const count = (outcome: WrittenFile['outcome']): number =>
    files.filter((file) => file.outcome === outcome).length;
  terminal.print(`${folder}: ${count('written')} written, ${count('unchanged')} unchanged`);
  for (const { path: file, outcome } of files) {
    if (outcome !== 'edited') continue;
    terminal.note(`${file} was edited and is left as it is; without it, it is written again`);
  }
}

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
    if (asked.isSnapshotAsked && !('format' in target)) {
      context.terminal.note(`${target.name}: tables need no snapshot, because they show all rows`);
    }
    const end = await showPublication(context, settings, target, asked);
    const isClean = (end.cleaned?.problem ?? null) === null;
    const code = withinMs === null ? exitCodes.ok : tellFreshness(context, target, end, withinMs);
    return isClean ? code : exitCodes.degraded;
  });
}

/**
 * Reports entities that are not fresh. They are published all the same; the exit code tells a caller not to use them
 * for a report.
 */
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
  const shown = stale.map((entity) => staleText(entity, clock.now()));
  terminal.note(`${name}: older than ${formatDuration(withinMs)}: ${firstNames(shown)}`);
  return exitCodes.degraded;
}
