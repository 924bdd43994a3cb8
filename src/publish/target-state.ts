import { SyncError } from '../core/errors.ts';
import { openExistingRecords } from '../sinks/registry.ts';
import { isUpToDate, noSinkError, planOf, type PublishRequest } from './publish-once.ts';
import type { Target } from './target.ts';

/** What a target holds, and what the next publication would do. */
export type TargetState = Awaited<ReturnType<typeof readTargetState>>;

/**
 * Changes nothing. `newest` null: nothing was published yet. `isUpToDate`: a publication would find nothing to publish.
 * `newGeneration`, for people: why the next publication starts an entity from the beginning; null: it does not.
 * `refusal`: why a publication would be refused; null: it would not.
 */
export async function readTargetState(
  target: Target,
  { settings, clock }: Pick<PublishRequest, 'settings' | 'clock'>,
) {
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
