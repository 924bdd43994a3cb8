import {
  type AskedPublication,
  cleanedText,
  ordinaryPublication,
  publishTarget,
  type TargetEnd,
} from '../../../app/publish-target.ts';
import { grouped } from '../../../core/grouped.ts';
import { firstNames } from '../../../definitions/suggest-name.ts';
import { openNotifier } from '../../../notify/open-notifier.ts';
import {
  entityName,
  type Manifest,
  type PublishedEntity,
  type StoredManifest,
} from '../../../publish/manifest.ts';
import { heldBackTexts, type NewGeneration, type PublishEnd } from '../../../publish/publication.ts';
import { isStillPublished } from '../../../settings/choices.ts';
import type { LocalSettings, PublishSettings } from '../../../settings/settings.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import {
  count,
  counted,
  duration,
  longAgo,
  roughly,
  sizeText,
  toTheMinute,
} from '../../../telemetry/format.ts';
import { showLive } from '../../../telemetry/progress.ts';
import type { CommandContext } from '../../command.ts';
import { picked } from '../../output/json-text.ts';
import { indentedTable, leftColumns, rightColumns } from '../../output/text-table.ts';

/** The largest number of lines: a target may have hundreds of entities. The newest are shown. */
const mostLines = 8;

/**
 * Runs one publication, with its progress and, at the end, its result; after a sync without each entity. Rejects where
 * nothing was published.
 */
export async function showPublication(
  context: CommandContext,
  settings: LocalSettings,
  target: PublishSettings,
  asked: AskedPublication | 'after-sync',
): Promise<TargetEnd> {
  const { terminal, clock, signal } = context;
  checkTargets(settings, [target]);
  const startedMs = clock.now();
  const rowsByEntity = new Map<string, number>();
  await using progress = showLive(terminal, clock, () => {
    const rows = [...rowsByEntity.values()].reduce((sum, some) => sum + some, 0);
    const ms = clock.now() - startedMs;
    const rate = counted(Math.round((rows * 1000) / Math.max(1, ms)), 'row');
    return [
      `publishing ${target.name}  ${duration(ms)}: ${counted(rows, 'row')}, ${rate}/s`,
      ...[...rowsByEntity].slice(-mostLines).map(([entity, some]) => `  ${entity}  ${counted(some, 'row')}`),
    ];
  });
  const isAfterSync = asked === 'after-sync';
  await using notifier = await openNotifier({ settings, clock, note: (line) => terminal.note(line) });
  const end = await publishTarget(target, {
    notifier,
    ...(isAfterSync ? ordinaryPublication : asked),
    clock,
    signal,
    onProgress: ({ connector, entity, rows }) => void rowsByEntity.set(`${connector}/${entity}`, rows),
  });
  await progress[Symbol.asyncDispose]();
  const ms = clock.now() - startedMs;
  terminal.printJson(publicationDocument(target, end, ms));
  terminal.print(...publicationText(target, end, ms, context, isAfterSync));
  const warnings = end.kind === 'nothing-stored' ? [] : end.warnings;
  for (const warning of warnings) terminal.note(`${target.name}: ${warning}`);
  if (end.cleaned !== null) terminal.print(`  ${cleanedText(end.cleaned)}`);
  return end;
}

/** The result of a publication, for programs. */
function publicationDocument({ name }: PublishSettings, end: TargetEnd, ms: number) {
  const head = { kind: 'publication', target: name, ms, cleaned: end.cleaned } as const;
  switch (end.kind) {
    case 'nothing-stored':
      return { ...head, result: end.kind };
    case 'unchanged':
      return {
        ...head,
        result: end.kind,
        ...manifestDocument(end.newest),
        ...picked(end, 'heldBack', 'warnings'),
      };
    case 'published':
      return {
        ...head,
        result: end.kind,
        ...manifestDocument(end.published),
        entities: end.published.manifest.entities.map(entityDocument),
        ...picked(end, 'newGenerations', 'heldBack', 'warnings'),
      };
  }
}

function manifestDocument({ manifest, sha256 }: StoredManifest) {
  return { ...picked(manifest, 'publication', 'createdAt'), sha256 };
}

function entityDocument(entity: PublishedEntity) {
  return {
    ...picked(entity, 'connector', 'entity', 'generation', 'upserts', 'deletes', 'through', 'asOf'),
    files: entity.files.length,
    snapshotRows: entity.snapshot?.rows ?? null,
  };
}

/** The result of a publication, for a person. */
function publicationText(
  { name }: PublishSettings,
  end: PublishEnd,
  ms: number,
  { terminal, clock, program }: Pick<CommandContext, 'terminal' | 'clock' | 'program'>,
  isBrief: boolean,
): readonly string[] {
  switch (end.kind) {
    case 'nothing-stored':
      return [`${name}: nothing is stored yet; run "${program} sync" first`];
    case 'unchanged': {
      const { publication, createdAt } = end.newest.manifest;
      return [
        `${name}: nothing new since publication ${publication} of ${longAgo(createdAt, clock.now())}`,
        ...heldBackTexts(end.heldBack).map((line) => `  ${line}`),
      ];
    }
    case 'published': {
      const { manifest } = end.published;
      return [
        `${name}: publication ${manifest.publication}: ${sumText(manifest)}, in ${duration(ms)}`,
        ...(isBrief ? [] : changesTable(manifest, terminal.columns())),
        ...generationTexts(end.newGenerations).map((line) => `  ${line}`),
        ...heldBackTexts(end.heldBack).map((line) => `  ${line}`),
      ];
    }
  }
}

/** A line for each reason: it is often the same for all entities. */
function generationTexts(generations: readonly NewGeneration[]): readonly string[] {
  const again = generations.filter(({ reason }) => reason !== null);
  return [...grouped(again, ({ reason }) => reason)].map(
    ([reason, of]) => `${firstNames(of.map(entityName), 3)}: all rows published again, because ${reason}`,
  );
}

function sumText({ entities }: Manifest): string {
  const sum = (of: (entity: PublishedEntity) => number): number =>
    entities.reduce((all, entity) => all + of(entity), 0);
  const [rows, deletes] = [sum(({ upserts }) => upserts), sum((entity) => entity.deletes)];
  const files = entities.flatMap((entity) => [...entity.files, ...(entity.snapshot?.files ?? [])]);
  const bytes = files.reduce((all, file) => all + file.bytes, 0);
  const what =
    rows + deletes === 0 ? 'no row changed' : `${counted(rows, 'row')}, ${counted(deletes, 'delete')}`;
  return files.length === 0 ? what : `${what}, ${counted(files.length, 'file')}, ${sizeText(bytes)}`;
}

const columns = [
  ...leftColumns('entity'),
  ...rightColumns('rows', 'deletes', 'snapshot'),
  ...leftColumns('complete as of'),
];

function changesTable({ entities }: Manifest, width: number | null): readonly string[] {
  const changed = entities.filter(
    ({ upserts, deletes, snapshot }) => upserts + deletes > 0 || snapshot !== null,
  );
  if (changed.length === 0) return [];
  const rows = changed.map(({ connector, entity, upserts, deletes, snapshot, asOf }) => [
    `${connector}/${entity}`,
    count(upserts),
    deletes === 0 ? '' : count(deletes),
    snapshot === null ? '' : count(snapshot.rows),
    asOf === null ? 'never' : toTheMinute(asOf),
  ]);
  return indentedTable(columns, rows, width);
}

/** An entity of the newest publication that exceeds the permitted age; `asOf` null: it was never read completely. */
type StaleEntity = Pick<PublishedEntity, 'connector' | 'entity' | 'asOf'>;

/** Finds stale entities among those that the config still has: no sync refreshes the others. */
export function staleEntities(
  { entities }: Manifest,
  target: PublishSettings,
  withinMs: number,
  nowMs: number,
): readonly StaleEntity[] {
  return entities
    .filter((one) => isStillPublished(target, one))
    .filter(({ asOf }) => asOf === null || Date.parse(asOf) + withinMs < nowMs)
    .map((one) => picked(one, 'connector', 'entity', 'asOf'));
}

export function staleText({ connector, entity, asOf }: StaleEntity, nowMs: number): string {
  const age = asOf === null ? 'never read completely' : `${roughly(nowMs - Date.parse(asOf))} old`;
  return `${connector}/${entity} (${age})`;
}
