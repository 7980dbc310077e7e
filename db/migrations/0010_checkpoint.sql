-- What a run knows of its own state at a point it names: recorded the first time, compared when the task is replayed.
ALTER TYPE madrugada.step_kind ADD VALUE 'checkpoint';
