import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import type { RevisionClock } from '../revision-time.ts';
import { textOf } from '../text-of.ts';
import { notesKind, type NotesPlan } from './notes-plan.ts';
import type { Workspace } from './workspace.ts';

/** A workspace while revisions are applied to it, one after the other. */
export interface NotesWork {
  readonly plan: NotesPlan;
  readonly users: Map<string, JsonObject>;
  readonly pages: Map<string, JsonObject>;
  readonly dataSources: Map<string, JsonObject>;
  readonly blocks: Map<string, JsonObject>;
  readonly childIds: Map<string, readonly string[]>;
  readonly comments: Map<string, readonly JsonObject[]>;
  /** Ids of deleted pages and users, which may come back. A deleted block is one that stands nowhere. */
  readonly gone: Set<string>;
  /** What may come back, by kind, oldest first. */
  readonly lost: Map<string, Lost[]>;
}

/** Something that a revision deleted. */
export interface Lost {
  readonly revision: number;
  readonly id: string;
  /** Of a block or comment: where it stood. */
  readonly parentId?: string;
  readonly record?: JsonObject;
}

/** One revision under way. */
export interface NotesRevision {
  readonly revision: number;
  readonly clock: RevisionClock;
  /** Pages and blocks that this revision is done with. */
  readonly busy: Set<string>;
}

export function startNotesWork(plan: NotesPlan, workspace: Workspace): NotesWork {
  return {
    plan,
    users: new Map(workspace.users),
    pages: new Map(workspace.pages),
    dataSources: new Map(workspace.dataSources),
    blocks: new Map(workspace.blocks),
    childIds: new Map(workspace.childIds),
    comments: new Map(workspace.comments),
    gone: new Set(),
    lost: new Map(),
  };
}

/** The workspace that the work has come to: without what is deleted and whatever lay in or under it. */
export function finishNotesWork(work: NotesWork): Workspace {
  const isThere = ([id]: readonly [string, unknown]): boolean => !work.gone.has(id);
  const pages = new Map([...work.pages].filter(isThere));
  const standing = new Set<string>();
  for (const id of pages.keys()) for (const below of idsBelow(work, id)) standing.add(below);
  const isPlace = ([id]: readonly [string, unknown]): boolean => pages.has(id) || standing.has(id);
  return {
    users: new Map([...work.users].filter(isThere)),
    pages,
    dataSources: work.dataSources,
    blocks: new Map([...work.blocks].filter(([id]) => standing.has(id))),
    childIds: new Map([...work.childIds].filter(isPlace)),
    comments: new Map([...work.comments].filter(isPlace)),
  };
}

/** Ids of the blocks on a page or in a block, at any depth, top to bottom; those on pages below it are not among them. */
export function idsBelow(work: NotesWork, id: string): readonly string[] {
  return (work.childIds.get(id) ?? []).flatMap((childId) => [
    childId,
    ...(work.pages.has(childId) ? [] : idsBelow(work, childId)),
  ]);
}

/** Ids of the pages that a search finds. */
export function shownPages(work: NotesWork): readonly string[] {
  return [...work.pages].flatMap(([id, { in_trash }]) =>
    in_trash === true || work.gone.has(id) ? [] : [id],
  );
}

/** The id of the page or block that a block, page or comment lies in; '' for the top of the workspace. */
export function parentIdOf(record: JsonObject | undefined): string {
  const parent = record?.['parent'];
  if (!isJsonObject(parent)) return '';
  return textOf(parent['page_id']) || textOf(parent['block_id']);
}

/** The id of the page that a block stands on, however deep. */
export function hostOf(work: NotesWork, blockId: string): string {
  const parentId = parentIdOf(work.blocks.get(blockId));
  return parentId === '' || work.pages.has(parentId) ? parentId : hostOf(work, parentId);
}

/** What may come back of a kind; to be added to. */
export function lostOf(work: NotesWork, kind: string): Lost[] {
  const lost = work.lost.get(kind) ?? [];
  work.lost.set(kind, lost);
  return lost;
}

/** Takes the oldest that fits and was deleted in this revision or an earlier one: it comes back. */
export function takeLost(
  work: NotesWork,
  kind: string,
  until: number,
  fits: (lost: Lost) => boolean = () => true,
): Lost | undefined {
  const lost = lostOf(work, kind);
  const place = lost.findIndex((candidate) => candidate.revision <= until && fits(candidate));
  return place < 0 ? undefined : lost.splice(place, 1)[0];
}

/** The values in an order that the dice tell. */
export function shuffled<Value>(values: readonly Value[], dice: Dice): readonly Value[] {
  return values
    .map((value) => ({ value, rank: dice.next() }))
    .sort((left, right) => left.rank - right.rank)
    .map(({ value }) => value);
}

/** The dice of one part of a revision. */
export function revisionDice(work: NotesWork, revision: number, part: number): Dice {
  return diceFor(work.plan.seed, notesKind.revision, revision, part);
}

export function withMember(value: JsonValue | undefined, members: JsonObject): JsonObject {
  return { ...(isJsonObject(value) ? value : {}), ...members };
}
