import { SyncError } from '../core/errors.ts';
import { openExistingRecords } from '../sinks/registry.ts';
import type { StoredManifest } from './manifest.ts';
import type { HeldBack } from './plan-publication.ts';
import { isUpToDate, noSinkError, planOf, type PublishRequest } from './publish-once.ts';
import type { Target } from './target.ts';

/** What a target holds, and what the next publication would do. */
export interface TargetState {
  /** Null: nothing was published yet. */
  readonly newest: StoredManifest | null;
  /** A publication would find nothing to publish. */
  readonly isUpToDate: boolean;
  /** For people: why the next publication starts an entity from the beginning; null: it does not. */
  readonly newGeneration: string | null;
  readonly heldBack: readonly HeldBack[];
  /** Why a publication would be refused; null: it would not. */
  readonly refusal: SyncError | null;
}

/** Changes nothing. */
export async function readTargetState(
  target: Target,
  { settings, clock }: Pick<PublishRequest, 'settings' | 'clock'>,
): Promise<TargetState> {
  const newest = await target.newest();
  const [first] = settings.connectors;
  await using reader = first === undefined ? null : await openExistingRecords(first.sink);
  const state = { newest, isUpToDate: false, newGeneration: null, heldBack: [], refusal: null };
  if (newest === null) return state;
  if (reader === null) return { ...state, refusal: noSinkError(settings, newest) };
  const request = { settings, clock, isNewGenerationAsked: false, isSnapshotAsked: false };
  try {
    const plan = await planOf(target, request, reader, newest);
    const newGeneration = plan.entities.find(({ reason }) => reason !== null)?.reason ?? null;
    const { heldBack } = plan;
    return { ...state, newGeneration, heldBack, isUpToDate: await isUpToDate(reader, plan) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return { ...state, refusal: error };
  }
}
