/** A request as it was sent, and what came of it: for people. Holds no credential. */
export interface SeenExchange {
  readonly method: string;
  readonly url: string;
  readonly body: string | null;
  /** Null: no answer came. */
  readonly status: number | null;
  readonly ms: number;
  /** Of the answer's body, as received. */
  readonly wireBytes: number;
  /** Names of the answer's members; null where it was not read as a JSON object. */
  readonly keys: readonly string[] | null;
}

export type OnExchange = (seen: SeenExchange) => void;
