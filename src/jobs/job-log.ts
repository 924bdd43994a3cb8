/** Where the worker says what it does: facts first, then the sentence. Structured loggers fit as they are. */
export interface JobLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}
