"""The two forms of a normalized cell: norms of W x and of U h, or norms of their sum."""

from collections.abc import Mapping
from typing import ClassVar

from keras_norm.rnn.core.operations import side_by_side, split_columns
from keras_norm.rnn.core.recurrence import ApplyNorm
from keras_norm.rnn.slots import KERNEL_SLOTS, RECURRENT_SLOTS, Slots
from keras_norm.typing import Tensor

# Name of the norm that normalizes all columns of W x + U h together.
JOINT_SLOT = "joint_norm"


class NormForm:
    """Mixin of a cell that assigns slots (positions of norms) to columns of W x, U h or their sum.

    In the separate form a norm is of columns of W x, or of columns of U h. In the joint forms a
    norm is of the sum W x + U h: of the columns of one gate, or of all columns.

    Attributes:
        SLOTS: width of each slot of the separate form in multiples of `units`, in the order of the
            slots' weights.
        OPTION_SLOTS: the slots that an option of the cell adds in `slot_widths`.
        ADDED_SLOTS: the slots whose output `forward_step` only adds to x W plus the bias.
        GATES: names of the gates in the order of the columns; the weights have `units` columns for
            each gate. Without them a cell has the weights of its Keras cell, and no joint form.
        CANDIDATE: index of the candidate gate in a list of all gates.
    """

    SLOTS: ClassVar[Mapping[str, int]]
    OPTION_SLOTS: ClassVar[tuple[str, ...]] = ()
    ADDED_SLOTS: ClassVar[tuple[str, ...]] = KERNEL_SLOTS
    GATES: ClassVar[tuple[str, ...]] = ()
    CANDIDATE: ClassVar = -1
    norm_form: str
    slots: Slots
    units: int
    kernel: Tensor
    recurrent_kernel: Tensor

    @classmethod
    def slot_sizes(cls, norm_form: str) -> Mapping[str, int]:
        """Return the width of each norm in multiples of `units`, for a value of `norm_form`.

        Raises:
            ValueError: the cell does not have the form.
        """
        forms = {"separate": cls.SLOTS}
        if cls.GATES:
            forms["joint"] = {f"{gate}_norm": 1 for gate in cls.GATES}
            forms["joint_all"] = {JOINT_SLOT: len(cls.GATES)}
        if norm_form not in forms:
            names = ", ".join(map(repr, forms))
            raise ValueError(f"norm_form must be one of: {names}. Received: {norm_form!r}.")
        return forms[norm_form]

    def slot_widths(self, units: int, norm_form: str) -> dict[str, int]:
        """Return the number of columns that each norm normalizes, for a value of `norm_form`."""
        return {slot: n * units for slot, n in self.slot_sizes(norm_form).items()}

    def has_keras_gates(self) -> bool:
        """Return whether the gates equal those of the Keras cell: True without norms."""
        return not self.slots.templates

    def joint_slots(self) -> dict[str, int]:
        """Return the widths of the norms of x W + h U, by name; {} if norm_form="separate"."""
        return {} if self.norm_form == "separate" else self.slots.widths

    def kernel_slots(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the widths of the norms of x W, by name, and the widths of the norms of h U.

        The name is "" if the cell has no slot for the product. In a joint form both dicts have all
        slots.
        """
        widths = self.slots.widths
        if self.joint_slots():
            return widths, widths
        sides = (KERNEL_SLOTS, self.kernel), (RECURRENT_SLOTS, self.recurrent_kernel)
        of_x, of_h = (
            {slot: widths[slot] for slot in slots if slot in widths} or {"": kernel.shape[1]}
            for slots, kernel in sides
        )
        return of_x, of_h

    def require_columns(self) -> None:
        """Raise ValueError unless the norms of each kernel have as many columns as the kernel."""
        kernels = self.kernel, self.recurrent_kernel
        for slots, kernel in zip(self.kernel_slots(), kernels, strict=True):
            if sum(slots.values()) != kernel.shape[1]:
                raise ValueError(
                    "The sum of the widths of all norms of a kernel must equal the number of "
                    f"columns of the kernel. Received norms of the widths {slots}, and a kernel of "
                    f"shape {tuple(kernel.shape)}. Correct {type(self).__name__}.SLOTS, which has "
                    f"each width divided by units={self.units}."
                )

    @classmethod
    def require_slot(cls, slot: str) -> None:
        """Raise ValueError for a norm name that the cell does not have with any `norm_form`.

        A subclass may leave out slots in `SLOTS`, and inherit the equation that uses them.
        """
        slots = {name: None for base in cls.__mro__ for name in vars(base).get("SLOTS", ())}
        gates = [f"{gate}_norm" for gate in cls.GATES]
        if slot not in {*slots, *cls.OPTION_SLOTS, *gates, JOINT_SLOT}:
            raise ValueError(
                f"The step uses a norm that the cell does not have. Received: norm({slot!r}, "
                f"...). Add {slot} to SLOTS of {cls.__name__}, or use one of: {', '.join(slots)}."
            )

    def groups(self) -> tuple[int, ...]:
        """Return the widths of the tensors in the list `u` of `forward_step`: columns of h U."""
        sizes = [n * self.units for slot, n in self.SLOTS.items() if slot in RECURRENT_SLOTS]
        return tuple(sizes) or (self.recurrent_kernel.shape[1],)

    def added_slots(self) -> tuple[str, ...]:
        """Return names of norms, such as "kernel_norm", whose beta can be added to the bias.

        They are `ADDED_SLOTS` of the class with `forward_step`, and all slots of a joint form.
        """
        owner = next(cls for cls in type(self).__mro__ if "forward_step" in vars(cls))
        added: tuple[str, ...] = vars(owner).get("ADDED_SLOTS", NormForm.ADDED_SLOTS)
        return (*added, *self.joint_slots())

    def by_gate(self, norm: ApplyNorm) -> ApplyNorm:
        """Extend `norm` by the slot `JOINT_SLOT`: normalize the columns of each gate by its norm.

        If the cell has one norm for the columns of all gates, `JOINT_SLOT` is that norm's slot, and
        `norm` normalizes the columns.

        Args:
            norm: function (slot, tensor) -> tensor for the slots of the cell.
        """
        slots = self.joint_slots()

        def apply(slot: str, z: Tensor) -> Tensor:
            if slot != JOINT_SLOT or slot in slots:
                return norm(slot, z)
            columns = split_columns(z, [*slots.values()])
            return side_by_side([norm(*gate) for gate in zip(slots, columns, strict=True)])

        return apply
