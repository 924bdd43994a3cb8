/** A sink whose file this machine can open. */
export interface ServedSink {
  /** The name in the config. */
  readonly name: string;
  /** Random; created with the file and stored in it. */
  readonly id: string;
  /** Absolute path of the file or folder. */
  readonly place: string;
}
