import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';

/** What is written beside every record. */
export interface Stamp {
  readonly run: RunId;
  readonly now: Instant;
  /**
   * Takes the next `count` numbers of the connector's change counter and gives the first. The first call of a transaction locks the
   * counter until its end, and is its fence; what was taken is written with the COMMIT. It comes late where much is read first, and with the first
   * statements where that saves a round trip: one process at a time writes for a connector.
   */
  readonly takeSeqs: (count: number) => Promise<number>;
}
