import { copyVersion, type CopiedConnector, type CopyProgress } from '../copies.ts';

/** What a target notes about a copy: its source and its progress. */
export interface CopyMarker extends CopyProgress {
  readonly version: number;
  /** Id of the source. */
  readonly source: string;
  /** `CopiedConnector.state`. */
  readonly state: string;
  /** JSON: the entities whose tables the copy has made. */
  readonly entities: string;
  /** Is added to ids of partitions. */
  readonly shift: number;
  readonly finishedAt: string | null;
}

/**
 * What a copy does in a target that noted `known` about an earlier one; `isHeld`: the target has the connector already.
 * `done`: this state of this source was copied before; `refuse`: the connector there is another one; `begin`: what an
 * earlier copy left is dropped.
 */
export function meetCopy(
  known: CopyMarker | undefined,
  { sinkId, state }: Pick<CopiedConnector, 'sinkId' | 'state'>,
  isHeld: boolean,
): 'done' | 'refuse' | 'resume' | 'begin' {
  const isSame = known?.source === sinkId && known.state === state && known.version === copyVersion;
  const isFinished = known !== undefined && known.finishedAt !== null;
  if (isHeld) return isSame && isFinished ? 'done' : 'refuse';
  return isSame && !isFinished ? 'resume' : 'begin';
}

/** Of a copy that begins. */
export function firstMarker(
  { sinkId, state, tables }: Pick<CopiedConnector, 'sinkId' | 'state' | 'tables'>,
  shift: number,
): CopyMarker {
  return {
    version: copyVersion,
    source: sinkId,
    state,
    entities: JSON.stringify(tables.map(({ entity }) => entity)),
    shift,
    entity: null,
    row: 0,
    finishedAt: null,
  };
}
